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
#include "emulation/cluster_plan.hpp"
#include "emulation/compute_pool.hpp"
#include "proto/shareable.hpp"
#include "worker/evaluate.hpp"
#include "worker/worker_core.hpp"

namespace rubato::emulation {

class VirtualTraining {
  struct Private {};  // so that only make() constructs

 public:
  VirtualTraining(Private, const ClusterConfig& config, const ClusterPlan& plan,
                  const worker::DataSplit& data, int threads)
      : config_(config), plan_(plan), data_(data), pool_(threads) {}
  // Lifetime: `config`, `plan` and `data` outlive the object.
  [[nodiscard]] static Result<std::unique_ptr<VirtualTraining>> make(const ClusterConfig& config,
                                                                     const ClusterPlan& plan,
                                                                     const worker::DataSplit& data,
                                                                     int threads);

  // Worker `index` of the plan. Each step that begins ends before the next call for that worker.
  void begin_step(std::uint32_t index, const worker::StepPlan& plan);
  worker::BatchResult end_step(std::uint32_t index);
  // U, or W where `elastic`.
  worker::Update take_update(std::uint32_t index, bool elastic);
  // What `core`, that worker's, wants loaded.
  void load(std::uint32_t index, const worker::WorkerCore& core);

  // Lifetime: `parameters` stay as they are until end_evaluation().
  void begin_evaluation(std::span<const float> parameters);
  worker::EvaluationResult end_evaluation();

 private:
  [[nodiscard]] Result<void> build();

  struct Trainer {
    std::unique_ptr<worker::LocalTrainer> trainer;
    ComputePool::Ticket ticket = 0;
    worker::BatchResult result;
    std::shared_ptr<proto::Floats> update;  // of the last commit
  };

  const ClusterConfig& config_;
  const ClusterPlan& plan_;
  const worker::DataSplit& data_;
  std::vector<Trainer> trainers_;
  std::unique_ptr<worker::Device> evaluator_;
  ComputePool::Ticket evaluation_ = 0;
  worker::EvaluationResult evaluated_;
  ComputePool pool_;  // last: its tasks use the trainers above, so it ends first
};

}  // namespace rubato::emulation
