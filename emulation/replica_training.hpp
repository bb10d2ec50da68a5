// emulation/replica_training.hpp - the computing of a virtual cluster by trainers of this process,
// one a worker. Threads: `threads` compute, the caller's among them; all calls from one owner.
// Errors: none after make().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/shareable.hpp"
#include "cluster/cluster_plan.hpp"
#include "emulation/compute_pool.hpp"
#include "emulation/virtual_training.hpp"
#include "train/local_trainer.hpp"

namespace rubato::emulation {

class ReplicaTraining final : public VirtualTraining {
  struct Private {};  // so that only make() constructs

 public:
  ReplicaTraining(Private, const cluster::ClusterConfig& config, const cluster::ClusterPlan& plan,
                  const train::DataSplit& data, int threads)
      : config_(config), plan_(plan), data_(data), pool_(threads) {}
  // Lifetime: `config`, `plan` and `data` outlive the object.
  [[nodiscard]] static Result<std::unique_ptr<ReplicaTraining>> make(
      const cluster::ClusterConfig& config, const cluster::ClusterPlan& plan,
      const train::DataSplit& data, int threads);

  Result<void> begin_step(std::uint32_t index, const train::StepPlan& plan, StepTime time) override;
  Result<train::BatchResult> end_step(std::uint32_t index) override;
  Result<void> restart(std::uint32_t index) override;
  Result<worker::Update> take_update(std::uint32_t index, Taking taking) override;
  Result<void> load(std::uint32_t index, std::span<const float> parameters, Since since) override;
  void begin_evaluation(std::span<const float> parameters) override;
  Result<train::EvaluationResult> end_evaluation() override;

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
