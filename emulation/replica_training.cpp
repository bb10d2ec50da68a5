#include "emulation/replica_training.hpp"

#include <utility>

#include "cluster/plan_training.hpp"

namespace rubato::emulation {

Result<std::unique_ptr<ReplicaTraining>> ReplicaTraining::make(const cluster::ClusterConfig& config,
                                                               const cluster::ClusterPlan& plan,
                                                               const train::DataSplit& data,
                                                               int threads) {
  auto training = std::make_unique<ReplicaTraining>(Private{}, config, plan, data, threads);
  RUBATO_TRY(training->build());
  return training;
}

Result<void> ReplicaTraining::build() {
  RUBATO_ASSIGN(samples_, cluster::plan_samples(config_, plan_, data_));
  if (data_.held_out.size() > 0) {
    RUBATO_ASSIGN(evaluator_, cluster::plan_device(config_, plan_, train::kEvaluationBatch));
  }
  trainers_.resize(plan_.workers.size());
  for (std::uint32_t i = 0; i < plan_.workers.size(); ++i) RUBATO_TRY(restart(i));
  if (config_.churn.empty()) samples_.clear();
  return {};
}

Result<void> ReplicaTraining::restart(std::uint32_t index) {
  std::vector<std::uint32_t> samples =
      config_.churn.empty() ? std::move(samples_[index]) : samples_[index];
  RUBATO_ASSIGN(auto trainer,
                cluster::make_trainer(config_, plan_, index, data_.train, std::move(samples)));
  trainers_[index].trainer = std::make_unique<train::LocalTrainer>(std::move(trainer));
  return {};
}

// A trainer of ours does not ask what time it is.
Result<void> ReplicaTraining::begin_step(std::uint32_t index, const train::StepPlan& plan,
                                         StepTime) {
  Trainer& t = trainers_[index];
  t.trainer->set_plan(plan);
  t.ticket = pool_.submit([&t] { t.result = t.trainer->step(); });
  return {};
}

Result<train::BatchResult> ReplicaTraining::end_step(std::uint32_t index) {
  pool_.wait(trainers_[index].ticket);
  return trainers_[index].result;
}

Result<worker::Update> ReplicaTraining::take_update(std::uint32_t index, Taking taking) {
  Trainer& t = trainers_[index];
  // The buffer of the commit before, unless somebody still holds it.
  if (!t.update || t.update.use_count() > 1) t.update = std::make_shared<Floats>(plan_.parameters);
  const bool finite =
      taking.elastic ? t.trainer->take_parameters(*t.update) : t.trainer->take_update(*t.update);
  return worker::Update{t.update, finite};
}

Result<void> ReplicaTraining::load(std::uint32_t index, std::span<const float> parameters,
                                   Since since) {
  train::LocalTrainer& trainer = *trainers_[index].trainer;
  if (since == Since::Dropped) trainer.drop_update();
  trainer.load_under_update(parameters);
  return {};
}

void ReplicaTraining::begin_evaluation(std::span<const float> parameters) {
  evaluation_ = pool_.submit([this, parameters] {
    evaluator_->load(parameters);
    evaluated_ = train::evaluate(*evaluator_, data_.held_out,
                                 static_cast<std::size_t>(config_.evaluation.samples),
                                 train::Measure::AndClasses);
  });
}

Result<train::EvaluationResult> ReplicaTraining::end_evaluation() {
  pool_.wait(evaluation_);
  return evaluated_;
}

}  // namespace rubato::emulation
