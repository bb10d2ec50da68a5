// cluster/worker_node.hpp - a real worker: its loop on the calling thread, and one thread more that
// computes. The compute thread makes mini-batch after mini-batch and tells the core of each by
// itself. While a step is computed a mutex guards the core.
// The trainer belongs to the compute thread from a step to the next commit or load. The loop's
// thread commits and loads.
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

namespace rubato::cluster {

// Samples that the worker holds out, and a device to measure the loaded parameters on them.
struct HeldOut {
  train::Dataset data;  // not empty
  std::unique_ptr<train::Device> device;
  Duration interval;            // from one measurement to the next, with the next reply
  std::size_t samples_max = 0;  // 0: all
  bool averages = false;        // the average of what was loaded is measured, too
};

struct WorkerNodeOptions {
  std::string scheduler;  // endpoint
  // How long the step that begins now, of so many samples, should take at least: as long as on the
  // device that it stands for. May be empty.
  std::function<Duration(Instant, int)> step_time;
  TraceProcess trace = {};  // empty: not profiled
  Cores cores = {};         // of the compute thread, the caller's, and what connecting starts
  // Called several times a second with what the worker has done. May be empty.
  std::function<void(const proto::Progress&)> on_progress = {};
  // Called with each node and the endpoint at which it is from now on. May be empty.
  std::function<void(proto::NodeId, const std::string& endpoint)> on_located = {};
  HeldOut* held_out = nullptr;  // null: somebody else evaluates
};

// Runs until the run is over. Returns: why it ended, or the error of the core or the transport. On
// `stop` the worker leaves the cluster.
[[nodiscard]] Result<std::string> run_worker(proto::Transport& transport, worker::WorkerCore& core,
                                             train::LocalTrainer& trainer,
                                             const WorkerNodeOptions& options,
                                             const std::stop_token& stop);

}  // namespace rubato::cluster
