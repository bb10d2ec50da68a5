/* rubato.h - a training loop of your own as a worker of a Rubato cluster, in plain C. The library
 * calls nothing of yours: your loop calls it after each mini-batch and does what it is told, as
 * docs/python.md says. Python's rubato.Worker stands on the same functions.
 *
 *   rubato_open(&options, tensors, count, &worker)
 *   while (turn.action != RUBATO_OVER)
 *     RUBATO_TRAIN:    make a mini-batch, then rubato_step()
 *     RUBATO_COMMIT:   rubato_commit()
 *     RUBATO_SEED:     the same: it tells the cluster the initial values
 *     RUBATO_LOAD:     rubato_load()
 *     RUBATO_RESTART:  forget the optimizer's moments, then rubato_load()
 *     RUBATO_EVALUATE: measure the parameters of rubato_global(), then rubato_evaluated();
 *                      where the sync model averages, it comes again, for the average
 *     RUBATO_WAIT:     rubato_wait()
 *   rubato_close(worker, "done")
 *
 * Memory: tensors are read and written within rubato_commit(), rubato_load() and rubato_global()
 * alone, on the caller's thread. Nothing of yours is kept but copies.
 * Returns: 0, or a code below; rubato_error() then has one line that a user can act on. Calls with
 * arguments that no program can mean (null where a thing is required) are RUBATO_BAD_INPUT.
 * Threads: one at a time for a worker; a second one gets RUBATO_BUSY and changes nothing. Several
 * workers in a process are independent. Signals: no handler is installed. A child of fork() gets
 * RUBATO_FORKED from every call. */
#ifndef RUBATO_H
#define RUBATO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RUBATO_ABI 1 /* it only grows; each struct begins with its size */

typedef struct rubato_worker rubato_worker;

enum rubato_code {
  RUBATO_OK = 0,
  RUBATO_BAD_INPUT = 2, /* options, tensors or the cluster file: the user can mend it */
  RUBATO_IO,            /* a file or socket operation failed */
  RUBATO_REFUSED,       /* the cluster said no, and why */
  RUBATO_TIMEOUT,       /* a deadline passed; the line names the peer and the operation */
  RUBATO_GONE,          /* the run is over without its target, or with another scheduler */
  RUBATO_UNSUPPORTED,   /* this build or machine cannot do it */
  RUBATO_BUSY,          /* another thread is within a call of this worker */
  RUBATO_FORKED,        /* the worker belongs to the process that opened it */
  RUBATO_NO_MEMORY,
  RUBATO_BUG
};

enum rubato_action {
  RUBATO_TRAIN,
  RUBATO_SEED,
  RUBATO_COMMIT,
  RUBATO_LOAD,
  RUBATO_RESTART,
  RUBATO_EVALUATE,
  RUBATO_WAIT,
  RUBATO_OVER
};

enum rubato_dtype {
  RUBATO_F32,
  RUBATO_F64,
  RUBATO_F16,
  RUBATO_BF16,
  RUBATO_I64 /* RUBATO_STILL alone: counters, which a file of the model has as they begin */
};

enum rubato_kind {
  RUBATO_TRAINED,  /* travels; the sync model and the servers' optimizer move it */
  RUBATO_AVERAGED, /* travels; servers take the plain mean: running statistics */
  RUBATO_STILL     /* does not travel; equal on all boxes, which is checked: frozen weights */
};

/* One tensor of the model: contiguous, row-major, in the byte order of the machine. One at the
 * address of an earlier one, with its type, kind and shape, is another name of it: it travels once,
 * and a file of the model has both names. Others may not overlap. */
typedef struct rubato_tensor {
  const char* name;      /* at most 200 bytes of UTF-8; no two are equal */
  uint32_t dtype;        /* enum rubato_dtype; all travel as float32 */
  uint32_t kind;         /* enum rubato_kind */
  uint32_t rank;         /* at most 8; 0: one element */
  const uint64_t* shape; /* [rank] */
  void* data;
} rubato_tensor;

enum rubato_flag {
  RUBATO_SCALES_RATE = 1,   /* the loop multiplies its learning rate by turn.rate */
  RUBATO_RESIZES_BATCH = 2, /* the loop makes mini-batches of turn.batch samples */
  RUBATO_EVALUATES = 4,     /* the loop measures on samples of its own when it is asked */
  RUBATO_INSECURE = 8,      /* no keys, beyond loopback either */
  RUBATO_STRETCH = 16,      /* each step takes at least the time that the file gives the device */
  RUBATO_THROTTLE = 32      /* the same, and the link is the file's */
};

/* Texts: null or empty is the default. Environment variables win over them: RUBATO_FILE,
 * RUBATO_SCHEDULER, RUBATO_NAME, RUBATO_SYNC, RUBATO_KEYS, RUBATO_STATE, RUBATO_LIKE, RUBATO_SEED,
 * and RUBATO_INSECURE, RUBATO_STRETCH, RUBATO_THROTTLE with the value 1. */
typedef struct rubato_options {
  size_t size;           /* sizeof(rubato_options) */
  const char* file;      /* the cluster file */
  const char* scheduler; /* tcp://HOST:PORT */
  const char* name;      /* of this worker; default: the file's only one */
  const char* sync;      /* the sync model of the run; default: adsp */
  const char* keys;      /* directory of keys; default: as the command has it */
  const char* state;     /* directory that outlives the process; default: none */
  const char* like;      /* with join = "open": a worker of the file */
  uint64_t seed;         /* 0: the file's */
  uint32_t flags;        /* enum rubato_flag */
  uint64_t samples;      /* that this worker trains on; 0: unknown */
  uint64_t held_out;     /* that it measures on; 0: unknown */
} rubato_options;

/* What to do next, and where the worker stands. */
typedef struct rubato_turn {
  size_t size;          /* sizeof(rubato_turn), set by the caller */
  uint32_t action;      /* enum rubato_action */
  uint32_t batch;       /* samples of the next mini-batch */
  uint32_t worker;      /* place of this worker in the file, from 0 */
  uint32_t workers;     /* that the file lists */
  uint32_t incarnation; /* how often it has joined, from 1; 0: not yet */
  uint32_t setbacks;    /* how often its steps were dropped (RUBATO_RESTART) */
  double rate;          /* part of the learning rate for the next step */
  double seconds;       /* since the first step; in the virtual cluster, of the run */
  uint64_t steps;       /* of this process */
  uint64_t commits;     /* likewise */
  uint64_t bytes_up;    /* likewise, over its link */
  uint64_t bytes_down;
  uint64_t earlier_steps; /* of earlier processes of this name */
} rubato_turn;

/* Who a worker is, before there is a model. */
typedef struct rubato_identity {
  size_t size;      /* sizeof(rubato_identity), set by the caller */
  uint32_t worker;  /* place in the file, from 0 */
  uint32_t workers; /* that the file lists */
  uint32_t batch;   /* training.batch */
  uint64_t seed;    /* of the run */
  char name[64];
  char data[1024]; /* workers.data of the file for it; empty: none */
} rubato_identity;

const char* rubato_version(void);               /* "0.2.0" */
uint32_t rubato_abi(void);                      /* RUBATO_ABI of the library */
size_t rubato_size_of(const char* struct_name); /* "rubato_turn" and so on; 0: there is none */

/* Reads the cluster file and finds out who this worker is. Opens nothing. */
int rubato_identify(const rubato_options*, rubato_identity*);

/* Reads the cluster file, checks the tensors against the model of the cluster, and begins to join.
 * Does not wait. `worker` is null after an error. With glibc, freed memory stays with the process
 * from then on, up to 3 MiB of it, unless MALLOC_TRIM_THRESHOLD_ is set: what a commit frees is not
 * faulted in again by the next one. */
int rubato_open(const rubato_options*, const rubato_tensor* tensors, size_t count,
                rubato_worker** worker);

/* A mini-batch was made. `loss_sum`: over its samples, and a NaN is told as it is; samples = 0: no
 * loss was computed, which RUBATO_BAD_INPUT refuses at the first step of a run that needs one.
 * Never waits and touches no tensor. At RUBATO_OVER it does nothing. */
int rubato_step(rubato_worker*, double loss_sum, uint64_t samples, rubato_turn*);

/* Reads the tensors: what they have moved since the last load is the update. Requires: the action
 * is RUBATO_COMMIT or RUBATO_SEED. `data`: [count] addresses as they are now; null: as opened. An
 * update that is not finite is dropped, and its worker restarts. */
int rubato_commit(rubato_worker*, void* const* data, rubato_turn*);

/* Writes the tensors. Steps since the commit stay on top. Requires: the action is RUBATO_LOAD or
 * RUBATO_RESTART. */
int rubato_load(rubato_worker*, void* const* data, rubato_turn*);

/* Waits until the action is another one than RUBATO_WAIT, at most so long. The only call that
 * waits. */
int rubato_wait(rubato_worker*, uint32_t milliseconds, rubato_turn*);

/* data <- what is to be measured: the parameters that were loaded last, without steps of this
 * worker, or their average. Requires: the action is RUBATO_EVALUATE. */
int rubato_global(rubato_worker*, void* const* data);

/* What the loop measured at RUBATO_EVALUATE. `loss`: the mean over `samples`. `accuracy`: 0..1;
 * NaN: none. */
int rubato_evaluated(rubato_worker*, double loss, double accuracy, uint64_t samples, rubato_turn*);

/* Writes the tensors as they were after the last load or commit: the steps since are dropped. For a
 * loop that has changed its parameters by hand. Requires: the action is RUBATO_TRAIN. */
int rubato_pull(rubato_worker*, void* const* data);

/* Which of `samples` samples are this worker's, by the partition of the cluster file. `labels`:
 * [samples], each 0..classes-1; null with classes = 0: samples without classes. `own`: how many.
 * Then rubato_draw(): the next ones in the order of the built-in models. Same file and seed, same
 * bits. Samples that earlier processes of this name have drawn are left out, if the worker has
 * joined. */
int rubato_share(rubato_worker*, const int32_t* labels, size_t samples, int32_t classes,
                 size_t* own);
int rubato_draw(rubato_worker*, uint32_t* indices, size_t count);

/* The next line of the log. `level`: 0 information, 1 warning, 2 failure. Returns: its length,
 * which may be more than `room`; 0: there is none. The line is cut to `room` - 1 bytes and ends
 * with 0. */
size_t rubato_next_line(rubato_worker*, int* level, char* line, size_t room);

/* Leaves the cluster, which hears why, and frees the worker. Waits for the farewell, 2 s at most.
 * Null, and a worker of another process: nothing. */
int rubato_close(rubato_worker*, const char* why);

/* The line of the last call that failed; null worker: of this thread's last rubato_open() or
 * rubato_identify(). Lifetime: until the next call. */
const char* rubato_error(const rubato_worker*);

#ifdef __cplusplus
}
#endif

#endif
