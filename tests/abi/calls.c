/* calls.c - what rubato.h says to calls that no program should make: null, too little memory, tensors
 * that are none, another thread, a forked child. No cluster is there, so the worker waits for ever.
 * Usage: calls CLUSTER.toml OWN.toml     Exit code: 0; 1, and a line for each call that was answered wrongly. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include <rubato.h>

static int wrong;

static void check(int holds, int line, const char* text) {
  if (holds) return;
  fprintf(stderr, "calls.c:%d: %s\n", line, text);
  wrong = 1;
}
#define CHECK(holds) check((holds) != 0, __LINE__, #holds)

static float hidden[12], hidden_bias[3], out[6], out_bias[2], more[2];
static const uint64_t kHidden[] = {3, 4}, kThree[] = {3}, kOut[] = {2, 3}, kTwo[] = {2};
static const rubato_tensor kTensors[] = {{"a", RUBATO_F32, RUBATO_TRAINED, 2, kHidden, hidden},
                                         {"b", RUBATO_F32, RUBATO_TRAINED, 1, kThree, hidden_bias},
                                         {"c", RUBATO_F32, RUBATO_TRAINED, 2, kOut, out},
                                         {"d", RUBATO_F32, RUBATO_TRAINED, 1, kTwo, out_bias}};
static rubato_options options = {.size = sizeof options};

static int error_has(const rubato_worker* worker, const char* words) {
  if (strstr(rubato_error(worker), words)) return 1;
  fprintf(stderr, "the line is: %s\n", rubato_error(worker));
  return 0;
}

static void versions(void) {
  CHECK(strcmp(rubato_version(), "0.2.0") == 0);
  CHECK(rubato_abi() == RUBATO_ABI);
  CHECK(rubato_size_of("rubato_options") == sizeof(rubato_options));
  CHECK(rubato_size_of("rubato_tensor") == sizeof(rubato_tensor));
  CHECK(rubato_size_of("rubato_turn") == sizeof(rubato_turn));
  CHECK(rubato_size_of("rubato_identity") == sizeof(rubato_identity));
  CHECK(rubato_size_of("rubato_worker") == 0);
  CHECK(rubato_size_of("") == 0);
  CHECK(rubato_size_of(NULL) == 0);
}

/* Requires: `worker` null. */
static void without_worker(void) {
  rubato_turn turn = {.size = sizeof turn};
  size_t own = 0;
  uint32_t index = 0;
  int level = 0;
  char line[8];
  CHECK(rubato_step(NULL, 0, 1, &turn) == RUBATO_BAD_INPUT);
  CHECK(error_has(NULL, "no worker"));
  CHECK(rubato_commit(NULL, NULL, &turn) == RUBATO_BAD_INPUT);
  CHECK(rubato_load(NULL, NULL, &turn) == RUBATO_BAD_INPUT);
  CHECK(rubato_wait(NULL, 0, &turn) == RUBATO_BAD_INPUT);
  CHECK(rubato_global(NULL, NULL) == RUBATO_BAD_INPUT);
  CHECK(rubato_evaluated(NULL, 0, 0, 1, &turn) == RUBATO_BAD_INPUT);
  CHECK(rubato_pull(NULL, NULL) == RUBATO_BAD_INPUT);
  CHECK(rubato_share(NULL, NULL, 1, 0, &own) == RUBATO_BAD_INPUT);
  CHECK(rubato_draw(NULL, &index, 1) == RUBATO_BAD_INPUT);
  CHECK(rubato_next_line(NULL, &level, line, sizeof line) == 0);
  CHECK(rubato_close(NULL, "why") == RUBATO_OK);
  CHECK(rubato_error(NULL) != NULL);
}

/* Opens with one thing wrong. */
static void refused(const rubato_tensor* tensors, size_t count, const char* words, int line) {
  rubato_worker* worker = (rubato_worker*)&options; /* is set to null */
  check(rubato_open(&options, tensors, count, &worker) == RUBATO_BAD_INPUT, line, "it is bad input");
  check(worker == NULL, line, "no worker is returned");
  check(error_has(NULL, words), line, words);
}
#define REFUSED(tensors, count, words) refused(tensors, count, words, __LINE__)

static void openings(const char* file) {
  rubato_worker* worker = NULL;
  rubato_tensor tensors[5];
  const uint64_t none[] = {3, 0}, large[] = {UINT64_MAX, 2}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  char longest[202];
  memset(longest, 'n', 201);
  longest[201] = 0;

  options.file = NULL;
  REFUSED(kTensors, 4, "no cluster file");
  options.file = "/no/such/file.toml";
  REFUSED(kTensors, 4, "/no/such/file.toml");
  options.file = file;
  REFUSED(kTensors, 4, "which of its 2 workers");
  options.name = "nobody";
  REFUSED(kTensors, 4, "nobody");
  options.name = "pi-1";
  options.scheduler = NULL;
  REFUSED(kTensors, 4, "has no scheduler to join");
  options.scheduler = "tcp://127.0.0.1:9";
  options.sync = "no-such-model";
  REFUSED(kTensors, 4, "no-such-model");
  options.sync = "tempo"; /* steers the rate, which is not obeyed */
  REFUSED(kTensors, 4, "RUBATO_SCALES_RATE");
  options.sync = "bsp";

  CHECK(rubato_open(&options, kTensors, 4, NULL) == RUBATO_BAD_INPUT);
  REFUSED(NULL, 4, "");
  REFUSED(kTensors, 0, "no tensors");
  REFUSED(kTensors, 3, "\"dense2.bias\" [2] is missing");

#define WITH(change)                          \
  memcpy(tensors, kTensors, sizeof kTensors); \
  tensors[4] = kTensors[3];                   \
  tensors[4].name = "e";                      \
  tensors[4].data = more;                     \
  change
  WITH(tensors[1].name = NULL;)
  REFUSED(tensors, 4, "no name");
  WITH(tensors[1].name = "";)
  REFUSED(tensors, 4, "a name has 1 to 200 bytes");
  WITH(tensors[1].name = longest;)
  REFUSED(tensors, 4, "a name has 1 to 200 bytes");
  WITH(tensors[1].name = "\xff";)
  REFUSED(tensors, 4, "a name is UTF-8");
  WITH(tensors[1].name = "a";)
  REFUSED(tensors, 4, "two tensors have this name");
  WITH(tensors[2].dtype = 5;)
  REFUSED(tensors, 4, "enum rubato_dtype");
  WITH(tensors[2].kind = 3;)
  REFUSED(tensors, 4, "enum rubato_kind");
  WITH(tensors[2].shape = NULL;)
  REFUSED(tensors, 4, "it has no shape");
  WITH(tensors[2].shape = none;)
  REFUSED(tensors, 4, "it has no elements");
  WITH(tensors[2].shape = large;)
  REFUSED(tensors, 4, "it is too large");
  WITH(tensors[2].shape = many; tensors[2].rank = 9;)
  REFUSED(tensors, 4, "it has 9 dimensions, and 8 at most");
  WITH(tensors[2].rank = UINT32_MAX;) /* the shape is shorter */
  REFUSED(tensors, 4, "it has 4294967295 dimensions, and 8 at most");
  WITH(tensors[2].data = NULL;)
  REFUSED(tensors, 4, "it has no address");
  WITH(tensors[2].dtype = RUBATO_I64;)
  REFUSED(tensors, 4, "make it still");
  WITH(tensors[0].shape = kOut;)
  REFUSED(tensors, 4, "tensor 1 is \"a\" [2, 3]; this cluster's (model.kind = \"mlp\") is ");
  WITH(tensors[2].kind = RUBATO_AVERAGED;)
  REFUSED(tensors, 4, "has no averaged tensors");
  WITH(;)
  REFUSED(tensors, 5, "has 4 tensors only");

  WITH(tensors[4].data = hidden;)
  REFUSED(tensors, 5, "tensors \"a\" and \"e\" overlap in memory");
  WITH(tensors[4].data = &hidden[10];)
  REFUSED(tensors, 5, "tensors \"a\" and \"e\" overlap in memory");
  WITH(tensors[0].data = &hidden[0]; tensors[1].data = &hidden[1];)
  REFUSED(tensors, 4, "tensors \"a\" and \"b\" overlap in memory");

  options.size = 3;
  REFUSED(kTensors, 4, "size");
  options.size = sizeof options;
  setenv("RUBATO_SEED", "seven", 1);
  REFUSED(kTensors, 4, "RUBATO_SEED=seven: is no whole number");
  unsetenv("RUBATO_SEED");

  /* A still tensor does not travel, and a program of a later version has larger structs. */
  WITH(tensors[4].kind = RUBATO_STILL;)
  struct {
    rubato_options known;
    char more[64];
  } later = {.known = options};
  later.known.size = sizeof later;
  CHECK(rubato_open(&later.known, tensors, 5, &worker) == RUBATO_OK);
  CHECK(rubato_close(worker, NULL) == RUBATO_OK);
  /* The same memory is the same tensor. */
  WITH(tensors[4] = kTensors[1]; tensors[4].name = "e";)
  CHECK(rubato_open(&options, tensors, 5, &worker) == RUBATO_OK);
  CHECK(rubato_close(worker, NULL) == RUBATO_OK);
}

static uint32_t draw(uint32_t below) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

/* Tables of tensors that no program makes, drawn at random: each is taken, or refused in one line. */
static void random_openings(const char* own_file) {
  static double memory[32];
  static const char* const names[] = {NULL, "", "a", "b", "c", "d", "two\nlines", "\xc3\xa9", "\xc3"};
  static const uint64_t sizes[] = {0, 1, 2, 3, 3, 1, (uint64_t)1 << 61, UINT64_MAX};
  const char* const usual = options.file;
  int tries, taken = 0;
  options.file = own_file;
  for (tries = 0; tries < 3000 && taken < 8; ++tries) {
    rubato_tensor tensors[3];
    uint64_t shapes[3][9];
    rubato_worker* worker = NULL;
    const size_t count = draw(4);
    size_t i, each;
    int code;
    for (i = 0; i < count; ++i) {
      const uint32_t rank = draw(10) ? draw(3) : draw(10);
      uint64_t elements = 1;
      for (each = 0; each < rank; ++each) {
        shapes[i][each] = sizes[draw(8)];
        elements = elements && shapes[i][each] > 32 / elements ? 33 : elements * shapes[i][each];
      }
      tensors[i].name = names[draw(9)];
      tensors[i].dtype = draw(7);
      tensors[i].kind = draw(5);
      tensors[i].rank = rank;
      tensors[i].shape = draw(20) ? shapes[i] : NULL;
      tensors[i].data = draw(20) ? &memory[draw(4) * 8] : NULL;
      /* What stays is read, so that it has to be there. */
      if (tensors[i].kind == RUBATO_STILL && elements > 8) tensors[i].kind = RUBATO_TRAINED;
    }
    code = rubato_open(&options, draw(50) ? tensors : NULL, count, &worker);
    CHECK(code == RUBATO_OK || code == RUBATO_BAD_INPUT);
    CHECK((code == RUBATO_OK) == (worker != NULL));
    if (code != RUBATO_OK) CHECK(strlen(rubato_error(NULL)) >= 10 && !strchr(rubato_error(NULL), '\n'));
    taken += code == RUBATO_OK;
    CHECK(rubato_close(worker, "done") == RUBATO_OK);
  }
  CHECK(taken == 8 && tries > 100);
  options.file = usual;
}

static void identities(void) {
  rubato_identity identity = {.size = sizeof identity};
  unsigned char small[sizeof identity];
  const size_t room = offsetof(rubato_identity, batch);
  CHECK(rubato_identify(&options, &identity) == RUBATO_OK);
  CHECK(identity.worker == 1);
  CHECK(identity.workers == 2);
  CHECK(identity.batch == 8);
  CHECK(strcmp(identity.name, "pi-1") == 0);
  CHECK(identity.data[0] == 0);
  CHECK(rubato_identify(&options, NULL) == RUBATO_BAD_INPUT);
  /* A program of an earlier version has a smaller one: nothing behind it is written. */
  memset(small, 0x5a, sizeof small);
  memcpy(small, &room, sizeof room);
  CHECK(rubato_identify(&options, (rubato_identity*)(void*)small) == RUBATO_OK);
  CHECK(small[room] == 0x5a);
  setenv("RUBATO_NAME", "pi-0", 1);
  CHECK(rubato_identify(&options, &identity) == RUBATO_OK);
  CHECK(identity.worker == 0); /* the environment wins */
  unsetenv("RUBATO_NAME");
}

static rubato_worker* shared;
static int waiter(void* unused) {
  rubato_turn turn = {.size = sizeof turn};
  int code;
  (void)unused;
  do code = rubato_wait(shared, 1500, &turn);
  while (code == RUBATO_BUSY); /* the first thread is within a call at that moment */
  return code;
}

static void a_second_thread(void) {
  rubato_turn turn = {.size = sizeof turn, .action = 99};
  thrd_t thread;
  int code = RUBATO_OK, tries, result = -1;
  thrd_create(&thread, waiter, NULL);
  for (tries = 0; tries < 1000000 && code != RUBATO_BUSY; ++tries) {
    code = rubato_step(shared, 0, 1, &turn);
    if (code == RUBATO_BAD_INPUT) thrd_yield();
  }
  CHECK(code == RUBATO_BUSY);
  CHECK(turn.action == 99);
  CHECK(rubato_commit(shared, NULL, &turn) == RUBATO_BUSY);
  CHECK(rubato_close(shared, "another thread") == RUBATO_BUSY);
  CHECK(error_has(NULL, "another thread is within a call of this worker"));
  thrd_join(thread, &result);
  CHECK(result == RUBATO_OK);
  CHECK(rubato_step(shared, 0, 1, &turn) == RUBATO_BAD_INPUT); /* it was not closed */
}

static void a_forked_child(void) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    rubato_turn turn = {.size = sizeof turn};
    char line[64];
    size_t own;
    int level;
    wrong = 0;
    CHECK(rubato_step(shared, 0, 1, &turn) == RUBATO_FORKED);
    CHECK(error_has(shared, "belongs to the process that opened it"));
    CHECK(rubato_wait(shared, 1000, &turn) == RUBATO_FORKED);
    CHECK(rubato_share(shared, NULL, 10, 0, &own) == RUBATO_FORKED);
    CHECK(rubato_next_line(shared, &level, line, sizeof line) == 0);
    CHECK(rubato_close(shared, NULL) == RUBATO_OK);
    _exit(wrong);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void shares(void) {
  int32_t labels[100];
  uint32_t first[64], again[64];
  size_t own = 0, i;
  for (i = 0; i < 100; ++i) labels[i] = (int32_t)(i % 2);
  CHECK(rubato_draw(shared, first, 64) == RUBATO_BAD_INPUT);
  CHECK(error_has(shared, "rubato_share comes first"));
  CHECK(rubato_share(shared, labels, 0, 2, &own) == RUBATO_BAD_INPUT);
  labels[7] = 2;
  CHECK(rubato_share(shared, labels, 100, 2, &own) == RUBATO_BAD_INPUT);
  labels[7] = -1;
  CHECK(rubato_share(shared, labels, 100, 2, &own) == RUBATO_BAD_INPUT);
  labels[7] = 1;
  CHECK(rubato_share(shared, labels, 100, 2, NULL) == RUBATO_BAD_INPUT);
  CHECK(rubato_share(shared, labels, 100, 2, &own) == RUBATO_OK);
  CHECK(own == 50);
  CHECK(rubato_draw(shared, NULL, 64) == RUBATO_BAD_INPUT);
  CHECK(rubato_draw(shared, first, 64) == RUBATO_OK);
  for (i = 0; i < 64; ++i) CHECK(first[i] < 100);
  /* The same file and seed: the same bits. */
  CHECK(rubato_share(shared, labels, 100, 2, &own) == RUBATO_OK);
  CHECK(rubato_draw(shared, again, 64) == RUBATO_OK);
  CHECK(memcmp(first, again, sizeof first) == 0);
  CHECK(rubato_share(shared, NULL, 100, 0, &own) == RUBATO_OK);
  CHECK(own == 50);
}

static void too_many_samples(void) {
  size_t own = 77;
  CHECK(rubato_share(shared, NULL, SIZE_MAX, 0, &own) == RUBATO_BAD_INPUT);
  CHECK(error_has(shared, "18446744073709551615 samples are too many"));
  /* A sanitizer would end the program where no memory is left. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  struct rlimit usual, less;
  CHECK(getrlimit(RLIMIT_AS, &usual) == 0);
  less = usual;
  less.rlim_cur = (rlim_t)4 << 30;
  CHECK(setrlimit(RLIMIT_AS, &less) == 0);
  CHECK(rubato_share(shared, NULL, 2000000000, 0, &own) == RUBATO_NO_MEMORY);
  CHECK(error_has(shared, "no memory is left"));
  CHECK(setrlimit(RLIMIT_AS, &usual) == 0);
#endif
  CHECK(own == 77);
  CHECK(rubato_share(shared, NULL, 100, 0, &own) == RUBATO_OK); /* it goes on */
}

static void turns(void) {
  rubato_turn turn = {.size = sizeof turn, .action = 99};
  unsigned char small[sizeof turn];
  const size_t room = offsetof(rubato_turn, rate);
  CHECK(rubato_wait(shared, 1, &turn) == RUBATO_OK);
  CHECK(turn.action == RUBATO_WAIT);
  CHECK(turn.worker == 1);
  CHECK(turn.workers == 2);
  CHECK(turn.incarnation == 0);
  CHECK(turn.batch == 8);
  CHECK(turn.steps == 0);
  CHECK(rubato_wait(shared, 1, NULL) == RUBATO_BAD_INPUT);
  turn.size = 4;
  CHECK(rubato_wait(shared, 1, &turn) == RUBATO_BAD_INPUT);
  memset(small, 0x5a, sizeof small);
  memcpy(small, &room, sizeof room);
  CHECK(rubato_wait(shared, 1, (rubato_turn*)(void*)small) == RUBATO_OK);
  CHECK(small[room] == 0x5a);
  turn.size = sizeof turn;
  CHECK(rubato_step(shared, NAN, UINT64_MAX, &turn) == RUBATO_BAD_INPUT);
  CHECK(error_has(shared, "step was called, but the last turn said wait, not train"));
}

static void lines(void) {
  char line[8];
  int level = 99;
  size_t length = 0, tries;
  rubato_turn turn = {.size = sizeof turn};
  /* Nobody is there, and a line says so: 5 s at most. */
  for (tries = 0; tries < 600 && length == 0; ++tries) {
    rubato_wait(shared, 100, &turn);
    length = rubato_next_line(shared, &level, line, sizeof line);
  }
  CHECK(length >= 8);
  CHECK(level >= 0 && level <= 2);
  CHECK(strlen(line) == 7);
  CHECK(rubato_next_line(shared, NULL, NULL, 0) < 100000);
}

int main(int argc, char** argv) {
  rubato_worker* other = NULL;
  if (argc != 3) return fprintf(stderr, "usage: calls CLUSTER.toml OWN.toml\n"), 2;
  versions();
  without_worker();
  openings(argv[1]);
  random_openings(argv[2]);
  identities();
  CHECK(rubato_open(&options, kTensors, 4, &shared) == RUBATO_OK);
  if (!shared) return 1;
  turns();
  shares();
  too_many_samples();
  a_second_thread();
  a_forked_child();
  /* Two workers of a process know nothing of each other. */
  options.name = "pi-0";
  CHECK(rubato_open(&options, kTensors, 4, &other) == RUBATO_OK);
  CHECK(rubato_close(other, "done") == RUBATO_OK);
  lines();
  CHECK(rubato_close(shared, "done") == RUBATO_OK);
  return wrong;
}
