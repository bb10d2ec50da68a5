// worker/worker_loop.hpp - drives a WorkerCore over a Transport in real time: this thread does the
// I/O, one more computes, mini-batch after mini-batch, and tells the core of each by itself; while
// a step is computed a mutex guards the core.
// The trainer belongs to the compute thread from a step to the next commit or load, and to the I/O
// thread for these.
// Threads: the caller's and one of its own, until the run is over or `stop` is requested.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/cores.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "base/trace.hpp"
#include "proto/transport.hpp"
#include "train/local_trainer.hpp"
#include "worker/worker_core.hpp"

namespace rubato::worker {

struct WorkerLoopOptions {
  std::string scheduler;  // endpoint
  // How long the step that begins now, of so many samples, should take at least, e.g. on the device
  // it stands for. May be empty.
  std::function<Duration(Instant, int)> step_time;
  TraceProcess trace = {};  // empty: not profiled
  Cores cores = {};         // of the compute thread, the caller's, and what connecting starts
};

// Runs until the run is over. Returns: why it ended, or the core's or the transport's error. On
// `stop` the worker leaves the cluster.
[[nodiscard]] Result<std::string> run_worker(proto::Transport& transport, WorkerCore& core,
                                             train::LocalTrainer& trainer,
                                             const WorkerLoopOptions& options,
                                             std::stop_token stop);

}  // namespace rubato::worker
