/* loop.c - a training loop in plain C for the tests: it pulls its tensors towards targets of its own
 * worker, so the loss is the squared distance. The tensors are of all types and kinds. At each turn
 * it also makes every call that does not fit, which must be refused and change nothing.
 * Usage: loop [WORD...]
 *   NAME=WORD     the word is for the worker NAME alone
 *   shape, name, count, kind, still      its model differs from that of the others
 *   nan           its initial values, and its tenth step, are no numbers
 *   early, raise, hang                   after some steps: leave, exit with 3, or make no step
 *   mute, sleep                          ends, or sleeps, before the model is told
 *   slow          10 ms a step
 *   measures      it evaluates
 * Exit code: 0 when the run is over; 1 after an error of the run, 2 for bad input, 3 raise; 4 if a
 * call did what it must not. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rubato.h>

enum { ROWS = 4, COLUMNS = 3, BIASES = 5 };
static float weight[ROWS * COLUMNS];
static double bias[BIASES];
static uint16_t brain[2]; /* bfloat16 */
static float mean[2] = {1, 1};
static float frozen[3] = {1, 2, 3};
static int64_t counter = 7;

static int argument_count;
static char** arguments;
static const char* me;

static int has(const char* word) {
  int i;
  for (i = 1; i < argument_count; ++i) {
    const char* at = strchr(arguments[i], '=');
    if (at && (strlen(me) != (size_t)(at - arguments[i]) || strncmp(arguments[i], me, strlen(me)) != 0))
      continue;
    if (strcmp(at ? at + 1 : arguments[i], word) == 0) return 1;
  }
  return 0;
}

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static float of_brain(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static uint16_t to_brain(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static float target(uint32_t worker, size_t i) { return (float)((5 * worker + 3 * i) % 7) / 7; }

/* The squared distance to the targets. `rate` > 0: moves there. */
static double train(uint32_t worker, float rate) {
  double loss = 0;
  size_t i;
  for (i = 0; i < ROWS * COLUMNS; ++i) {
    const float miss = weight[i] - target(worker, i);
    loss += (double)(miss * miss);
    if (rate > 0) weight[i] -= rate * miss;
  }
  for (i = 0; i < BIASES; ++i) {
    const double miss = bias[i] - (double)target(worker, i);
    loss += miss * miss;
    if (rate > 0) bias[i] -= (double)rate * miss;
  }
  for (i = 0; i < 2 && rate > 0; ++i) {
    brain[i] = to_brain(of_brain(brain[i]) * (1 - rate));
    mean[i] += rate * (0.5f - mean[i]);
  }
  return loss;
}

static int fail(const char* what, const rubato_worker* worker) {
  fprintf(stderr, "loop %s: %s: %s\n", me, what, rubato_error(worker));
  return 4;
}

/* Every call but the one that fits. Returns: 0, or 4. */
static int misuse(rubato_worker* worker, uint32_t action) {
  rubato_turn turn = {.size = sizeof turn, .action = 99};
  float elsewhere[64];
  void* data[8] = {elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere, elsewhere};
  const float kept = weight[0];
  if (action != RUBATO_TRAIN && rubato_step(worker, 1, 0, &turn) != RUBATO_BAD_INPUT)
    return fail("a step was taken", worker);
  if (action != RUBATO_TRAIN && rubato_pull(worker, data) != RUBATO_BAD_INPUT)
    return fail("a pull was made", worker);
  if (action != RUBATO_COMMIT && action != RUBATO_SEED &&
      rubato_commit(worker, data, &turn) != RUBATO_BAD_INPUT)
    return fail("a commit was made", worker);
  if (action != RUBATO_LOAD && action != RUBATO_RESTART &&
      rubato_load(worker, data, &turn) != RUBATO_BAD_INPUT)
    return fail("a load was made", worker);
  if (action != RUBATO_EVALUATE && rubato_evaluated(worker, 1, 1, 1, &turn) != RUBATO_BAD_INPUT)
    return fail("an evaluation was taken", worker);
  if (action != RUBATO_EVALUATE && rubato_global(worker, data) != RUBATO_BAD_INPUT)
    return fail("the parameters were told", worker);
  if (strlen(rubato_error(worker)) < 10) return fail("an error has no line", worker);
  if (weight[0] != kept) return fail("a tensor was written", worker);
  return 0;
}

int main(int argc, char** argv) {
  rubato_options options = {.size = sizeof options};
  rubato_turn turn = {.size = sizeof turn, .action = RUBATO_WAIT};
  rubato_worker* worker = NULL;
  uint64_t shape[] = {ROWS, COLUMNS}, biases[] = {BIASES}, two[] = {2}, three[] = {3};
  rubato_tensor tensors[] = {{"weight", RUBATO_F32, RUBATO_TRAINED, 2, shape, weight},
                             {"bias", RUBATO_F64, RUBATO_TRAINED, 1, biases, bias},
                             {"brain", RUBATO_BF16, RUBATO_TRAINED, 1, two, brain},
                             {"running_mean", RUBATO_F32, RUBATO_AVERAGED, 1, two, mean},
                             {"frozen", RUBATO_F32, RUBATO_STILL, 1, three, frozen},
                             {"batches", RUBATO_I64, RUBATO_STILL, 0, NULL, &counter},
                             {"tied", RUBATO_F32, RUBATO_TRAINED, 2, shape, weight}};
  size_t count = sizeof tensors / sizeof *tensors, i;
  int code, misused = 0;
  rubato_identity identity = {.size = sizeof identity};
  argument_count = argc;
  arguments = argv;
  me = getenv("RUBATO_NAME") ? getenv("RUBATO_NAME") : "";
  code = rubato_identify(NULL, &identity);
  if (code) return fail("identify", NULL), code == RUBATO_BAD_INPUT ? 2 : 1;
  if (strcmp(identity.name, me) != 0) return fail("it has another name", NULL);
  for (i = 0; i < ROWS * COLUMNS; ++i) weight[i] = 2 + (float)identity.worker;
  for (i = 0; i < 2; ++i) brain[i] = to_brain(1);
  if (has("shape")) shape[0] = COLUMNS, shape[1] = ROWS;
  if (has("name")) tensors[1].name = "offset";
  if (has("count")) count = 4;
  if (has("kind")) tensors[3].kind = RUBATO_TRAINED;
  if (has("still")) frozen[1] = 8;
  if (has("nan")) weight[3] = NAN;
  if (has("mute")) return 0;
  if (has("sleep")) pause_ms(600 * 1000);
  options.flags = RUBATO_SCALES_RATE | RUBATO_RESIZES_BATCH;
  options.samples = 100;
  if (has("measures")) options.flags |= RUBATO_EVALUATES, options.held_out = 50;
  code = rubato_open(&options, tensors, count, &worker);
  if (code) return fail("open", NULL), code == RUBATO_BAD_INPUT ? 2 : 1;
  while (code == 0 && misused == 0 && turn.action != RUBATO_OVER) {
    double loss;
    float kept[ROWS * COLUMNS];
    misused = misuse(worker, turn.action);
    switch (turn.action) {
      case RUBATO_TRAIN:
        if (turn.steps >= 20 && has("raise")) return 3;
        if (turn.steps >= 20 && has("hang")) pause_ms(600 * 1000);
        if (turn.steps >= 20 && has("early")) return rubato_close(worker, "I have had enough"), 0;
        if (has("slow")) pause_ms(10);
        loss = train(identity.worker, 0.05f * (float)turn.rate);
        if (turn.steps == 9 && has("nan")) bias[1] = NAN;
        code = rubato_step(worker, loss * turn.batch, has("silent") ? 0 : turn.batch, &turn);
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
        memcpy(kept, weight, sizeof kept);
        code = rubato_global(worker, NULL);
        loss = train(identity.worker, 0);
        memcpy(weight, kept, sizeof kept);
        if (code == 0) code = rubato_evaluated(worker, loss, NAN, 50, &turn);
        break;
      default:
        code = rubato_wait(worker, 100, &turn);
    }
  }
  for (i = 0; i < 200; ++i) {
    char line[256];
    int level;
    if (rubato_next_line(worker, &level, line, sizeof line) == 0) break;
    if (level > 0) fprintf(stderr, "loop %s: %s\n", me, line);
  }
  if (misused) return misused;
  if (code) {
    fprintf(stderr, "loop %s: %s\n", me, rubato_error(worker));
  } else {
    /* At the end each call says that it is the end. */
    if (rubato_step(worker, 1, 1, &turn) != 0 || turn.action != RUBATO_OVER) return fail("a step", worker);
    if (rubato_commit(worker, NULL, &turn) != 0 || turn.action != RUBATO_OVER) return fail("a commit", worker);
    if (rubato_load(worker, NULL, &turn) != 0 || turn.action != RUBATO_OVER) return fail("a load", worker);
    if (counter != 7 || frozen[0] != 1) return fail("a still tensor was written", worker);
    for (i = 0; i < 2; ++i)
      if (!(mean[i] > 0 && mean[i] <= 1)) return fail("a running mean left its range", worker);
    fprintf(stderr, "loop %s: over after %llu steps, %llu commits, %u setbacks\n", me,
            (unsigned long long)turn.steps, (unsigned long long)turn.commits, turn.setbacks);
  }
  rubato_close(worker, "done");
  return code == 0 ? 0 : code == RUBATO_BAD_INPUT ? 2 : 1;
}
