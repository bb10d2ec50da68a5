/* mlp.c - a training loop in plain C as a worker of a cluster: a network with one hidden layer, ReLU
 * and softmax, on the numbers of a CSV file whose last column is the class. Rubato calls nothing
 * here: the loop asks it what to do after each mini-batch.
 * Build: cc -O2 mlp.c -lrubato -lm -o mlp
 * Usage: mlp DATA.csv HIDDEN     RUBATO_FILE, RUBATO_SCHEDULER and RUBATO_NAME say in which cluster;
 *                                `rubato up FILE -- ./mlp DATA.csv HIDDEN` sets them.
 * Exit code: 0 when the run is over, 1 after an error of the run, 2 for bad input. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rubato.h>

#define INPUTS_MAX 256
#define HIDDEN_MAX 256
#define CLASSES_MAX 64

static size_t samples, inputs, hidden, classes;
static float* data;     /* [samples, inputs] */
static int32_t* labels; /* [samples] */
/* The model. */
static float w1[HIDDEN_MAX * INPUTS_MAX], b1[HIDDEN_MAX], w2[CLASSES_MAX * HIDDEN_MAX], b2[CLASSES_MAX];
/* What a step adds to it. */
static float dw1[HIDDEN_MAX * INPUTS_MAX], db1[HIDDEN_MAX], dw2[CLASSES_MAX * HIDDEN_MAX], db2[CLASSES_MAX];

static int fail(const char* what, const char* why) {
  fprintf(stderr, "mlp: %s: %s\n", what, why);
  return 2;
}

static int read_csv(const char* path) {
  FILE* file = fopen(path, "r");
  char line[8192];
  size_t room = 0;
  if (!file) return fail(path, "cannot be opened");
  while (fgets(line, sizeof line, file)) {
    float row[INPUTS_MAX + 1];
    size_t count = 0;
    char *at = line, *end = line;
    while (count <= INPUTS_MAX) {
      row[count] = strtof(at, &end);
      if (end == at) break;
      ++count;
      at = *end == ',' ? end + 1 : end;
    }
    if (count < 2) continue; /* the names of the columns, or an empty line */
    if (samples == 0) inputs = count - 1;
    if (count - 1 != inputs) return fclose(file), fail(path, "its lines have different lengths");
    if (samples == room) {
      room = room ? 2 * room : 1024;
      data = realloc(data, room * inputs * sizeof *data);
      labels = realloc(labels, room * sizeof *labels);
      if (!data || !labels) return fclose(file), fail(path, "no memory");
    }
    memcpy(data + samples * inputs, row, inputs * sizeof *data);
    labels[samples] = (int32_t)row[inputs];
    if (labels[samples] < 0 || labels[samples] >= CLASSES_MAX)
      return fclose(file), fail(path, "a class is not a small whole number");
    if ((size_t)labels[samples] >= classes) classes = (size_t)labels[samples] + 1;
    ++samples;
  }
  fclose(file);
  return samples > 0 ? 0 : fail(path, "has no samples");
}

/* Returns: the loss of sample i. `right`: is it classified rightly? `scale` > 0: adds its gradient. */
static double sample(size_t i, float scale, int* right) {
  float h[HIDDEN_MAX], s[CLASSES_MAX] = {0}, largest = -INFINITY, sum = 0;
  const float* x = data + i * inputs;
  size_t j, k, best = 0;
  double loss;
  for (j = 0; j < hidden; ++j) {
    h[j] = b1[j];
    for (k = 0; k < inputs; ++k) h[j] += w1[j * inputs + k] * x[k];
    if (h[j] < 0) h[j] = 0;
  }
  for (j = 0; j < classes; ++j) {
    s[j] = b2[j];
    for (k = 0; k < hidden; ++k) s[j] += w2[j * hidden + k] * h[k];
    if (s[j] > largest) largest = s[j], best = j;
  }
  for (j = 0; j < classes; ++j) sum += s[j] = expf(s[j] - largest);
  loss = -log(s[labels[i]] / sum);
  *right = best == (size_t)labels[i];
  if (scale <= 0) return loss;
  for (j = 0; j < classes; ++j) {
    const float d = scale * (s[j] / sum - (j == (size_t)labels[i]));
    db2[j] += d;
    for (k = 0; k < hidden; ++k) dw2[j * hidden + k] += d * h[k];
  }
  for (k = 0; k < hidden; ++k) {
    float d = 0;
    if (h[k] <= 0) continue;
    for (j = 0; j < classes; ++j)
      d += scale * (s[j] / sum - (j == (size_t)labels[i])) * w2[j * hidden + k];
    db1[k] += d;
    for (j = 0; j < inputs; ++j) dw1[k * inputs + j] += d * x[j];
  }
  return loss;
}

static void move(float* w, float* d, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) w[i] -= d[i], d[i] = 0;
}

/* One mini-batch. Returns: the sum of its losses. */
static double train(const uint32_t* batch, size_t size, double rate) {
  double loss = 0;
  size_t i;
  int right;
  for (i = 0; i < size; ++i) loss += sample(batch[i], (float)(rate / (double)size), &right);
  move(w1, dw1, hidden * inputs);
  move(b1, db1, hidden);
  move(w2, dw2, classes * hidden);
  move(b2, db2, classes);
  return loss;
}

static double evaluate(rubato_worker* worker, double* accuracy) {
  static float kept[sizeof w1 / 4 + sizeof b1 / 4 + sizeof w2 / 4 + sizeof b2 / 4];
  double loss = 0;
  size_t i, all = 0;
  int right;
  /* The cluster's parameters, without steps of this worker; then its own again. */
  memcpy(kept, w1, sizeof w1);
  memcpy(kept + HIDDEN_MAX * INPUTS_MAX, b1, sizeof b1);
  memcpy(kept + HIDDEN_MAX * (INPUTS_MAX + 1), w2, sizeof w2);
  memcpy(kept + HIDDEN_MAX * (INPUTS_MAX + 1 + CLASSES_MAX), b2, sizeof b2);
  rubato_global(worker, NULL);
  for (i = 0; i < samples; ++i) loss += sample(i, 0, &right), all += (size_t)right;
  memcpy(w1, kept, sizeof w1);
  memcpy(b1, kept + HIDDEN_MAX * INPUTS_MAX, sizeof b1);
  memcpy(w2, kept + HIDDEN_MAX * (INPUTS_MAX + 1), sizeof w2);
  memcpy(b2, kept + HIDDEN_MAX * (INPUTS_MAX + 1 + CLASSES_MAX), sizeof b2);
  *accuracy = (double)all / (double)samples;
  return loss / (double)samples;
}

static void show_log(rubato_worker* worker) {
  char line[1024];
  int level;
  while (rubato_next_line(worker, &level, line, sizeof line) > 0) fprintf(stderr, "mlp: %s\n", line);
}

int main(int argc, char** argv) {
  rubato_options options = {.size = sizeof options};
  rubato_turn turn = {.size = sizeof turn, .action = RUBATO_WAIT};
  rubato_worker* worker = NULL;
  uint32_t batch[4096];
  size_t own, i;
  int code;
  if (argc != 3) return fail("usage", "mlp DATA.csv HIDDEN");
  if ((code = read_csv(argv[1])) != 0) return code;
  hidden = (size_t)atoi(argv[2]);
  if (hidden < 1 || hidden > HIDDEN_MAX) return fail("HIDDEN", "is 1 to 256");
  /* Of model.kind = "own" one worker's values begin the run. */
  srand(1);
  for (i = 0; i < hidden * inputs; ++i) w1[i] = ((float)rand() / (float)RAND_MAX - 0.5f) / sqrtf((float)inputs);
  for (i = 0; i < classes * hidden; ++i) w2[i] = ((float)rand() / (float)RAND_MAX - 0.5f) / sqrtf((float)hidden);

  const uint64_t s1[] = {hidden, inputs}, s2[] = {hidden}, s3[] = {classes, hidden}, s4[] = {classes};
  const rubato_tensor tensors[] = {{"hidden.weight", RUBATO_F32, RUBATO_TRAINED, 2, s1, w1},
                                   {"hidden.bias", RUBATO_F32, RUBATO_TRAINED, 1, s2, b1},
                                   {"out.weight", RUBATO_F32, RUBATO_TRAINED, 2, s3, w2},
                                   {"out.bias", RUBATO_F32, RUBATO_TRAINED, 1, s4, b2}};
  options.flags = RUBATO_SCALES_RATE | RUBATO_RESIZES_BATCH | RUBATO_EVALUATES;
  options.samples = samples;
  options.held_out = samples;
  code = rubato_open(&options, tensors, 4, &worker);
  if (code) {
    fprintf(stderr, "mlp: %s\n", rubato_error(NULL));
    return code == RUBATO_BAD_INPUT ? 2 : 1;
  }
  code = rubato_share(worker, labels, samples, (int32_t)classes, &own);
  while (code == 0 && turn.action != RUBATO_OVER) {
    double loss, accuracy;
    switch (turn.action) {
      case RUBATO_TRAIN:
        if (turn.batch > 4096) turn.batch = 4096;
        code = rubato_draw(worker, batch, turn.batch);
        if (code) break;
        loss = train(batch, turn.batch, 0.05 * turn.rate);
        code = rubato_step(worker, loss, turn.batch, &turn);
        break;
      case RUBATO_SEED:
      case RUBATO_COMMIT:
        code = rubato_commit(worker, NULL, &turn);
        break;
      case RUBATO_LOAD:
      case RUBATO_RESTART:
        code = rubato_load(worker, NULL, &turn);
        break;
      case RUBATO_EVALUATE:
        loss = evaluate(worker, &accuracy);
        code = rubato_evaluated(worker, loss, accuracy, samples, &turn);
        break;
      default:
        code = rubato_wait(worker, 100, &turn);
        show_log(worker);
    }
  }
  show_log(worker);
  if (code)
    fprintf(stderr, "mlp: %s\n", rubato_error(worker));
  else
    printf("%llu of %zu samples, %llu steps, %llu commits\n", (unsigned long long)own, samples,
           (unsigned long long)turn.steps, (unsigned long long)turn.commits);
  rubato_close(worker, "done");
  return code == 0 ? 0 : code == RUBATO_BAD_INPUT ? 2 : 1;
}
