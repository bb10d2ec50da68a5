// emulation/virtual_training.hpp - what the workers and the evaluator of a virtual cluster compute:
// gradients, updates, held-out loss. Absent in a run of which only the timing counts.
// A gradient begins at the virtual start of its step and is finished at the virtual end, whoever
// computes it meanwhile, so that results do not depend on the number of threads.
// Threads: `threads` compute, the caller's among them; all calls from one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "base/shareable.hpp"
#include "cluster/cluster_plan.hpp"
#include "emulation/compute_pool.hpp"
#include "train/evaluate.hpp"
#include "train/local_trainer.hpp"
#include "worker/worker_core.hpp"

namespace rubato::emulation {

class VirtualTraining {
  struct Private {};  // so that only make() constructs

 public:
  VirtualTraining(Private, const cluster::ClusterConfig& config, const cluster::ClusterPlan& plan,
                  const train::DataSplit& data, int threads)
      : config_(config), plan_(plan), data_(data), pool_(threads) {}
  // Lifetime: `config`, `plan` and `data` outlive the object.
  [[nodiscard]] static Result<std::unique_ptr<VirtualTraining>> make(
      const cluster::ClusterConfig& config, const cluster::ClusterPlan& plan,
      const train::DataSplit& data, int threads);

  // Worker `index` of the plan. Each step that begins ends before the next call for that worker.
  void begin_step(std::uint32_t index, const train::StepPlan& plan);
  train::BatchResult end_step(std::uint32_t index);
  // A new process of the worker: it begins as the first one did. Requires: no step is under way.
  [[nodiscard]] Result<void> restart(std::uint32_t index);
  // U, or W where `elastic`.
  worker::Update take_update(std::uint32_t index, bool elastic);
  // What `core`, that worker's, wants loaded.
  void load(std::uint32_t index, const worker::WorkerCore& core);

  // Lifetime: `parameters` stay as they are until end_evaluation().
  void begin_evaluation(std::span<const float> parameters);
  train::EvaluationResult end_evaluation();

 private:
  [[nodiscard]] Result<void> build();

  struct Trainer {
    std::unique_ptr<train::LocalTrainer> trainer;
    ComputePool::Ticket ticket = 0;
    train::BatchResult result;
    std::shared_ptr<Floats> update;  // of the last commit
  };

  const cluster::ClusterConfig& config_;
  const cluster::ClusterPlan& plan_;
  const train::DataSplit& data_;
  std::vector<std::vector<std::uint32_t>> samples_;  // by worker, where [[churn]] may restart it
  std::vector<Trainer> trainers_;
  std::unique_ptr<train::Device> evaluator_;
  ComputePool::Ticket evaluation_ = 0;
  train::EvaluationResult evaluated_;
  ComputePool pool_;  // last: its tasks use the trainers above, so it ends first
};

}  // namespace rubato::emulation
