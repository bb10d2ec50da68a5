// emulation/virtual_cluster.hpp - the whole cluster in one process on virtual time: the real cores,
// the real codec, real gradients; device and link models instead of machines and wires.
// With model.kind = "timing" only the timing: real cores and control frames, payloads that are only
// counted, and neither trainers nor evaluator (emulation/virtual_training.hpp).
// Deterministic: same config, model and seed give the same bytes of run log, whatever `threads`.
// Threads: `threads` compute gradients, the caller's among them; all else happens on the caller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.hpp"
#include "base/run_record.hpp"
#include "base/trace.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/model_saver.hpp"
#include "emulation/loop_processes.hpp"
#include "scheduler/scheduler.hpp"
#include "sync/factory.hpp"
#include "train/data/dataset.hpp"

namespace rubato::emulation {

struct VirtualProgress {
  double seconds = 0;        // virtual
  double smoothed_loss = 0;  // mean of the last 5 evaluations; 0 before the first
  std::uint64_t steps = 0;
  std::optional<double> seconds_left = {};  // virtual; empty: not known
};

struct VirtualOptions {
  std::string sync = sync::trained_model();
  std::uint64_t seed = 1;
  int threads = 1;
  // Receives every line of the run log, in order. May be empty.
  std::function<void(const std::string&)> log;
  // Where every worker's steps and commits are recorded, in virtual time. Null: nowhere.
  Trace* trace = nullptr;
  // Called after each evaluation, or every so many events where there is none. May be empty.
  std::function<void(const VirtualProgress&)> progress;
  // Called as `progress` is. May be empty.
  std::function<void(const scheduler::Scheduler&, Instant now)> watch = {};
  // Starts the workers' processes, of model.kind = "own". Else null.
  std::shared_ptr<LoopLauncher> loops = nullptr;
  // Directory for what they note of their steps; empty: as their environment says.
  std::string curves = {};
  // Makes what saves the trained model, once the plan is known. May be empty.
  std::function<std::unique_ptr<cluster::ModelSaver>(const cluster::ClusterPlan&)> saver;
  // Fills RunRecord::path, and draws the path into `trace`. Memory: 50 MB at most.
  bool path = false;
  // Ends the run with its next event at the latest.
  std::stop_token stop;
};

// `data`: loaded once by the caller and shared by many runs; not looked at for timing only.
[[nodiscard]] Result<RunRecord> run_virtual(const cluster::ClusterConfig& config,
                                            const train::DataSplit& data,
                                            const VirtualOptions& options);

}  // namespace rubato::emulation
