#include "cluster/plan_training.hpp"

#include <utility>

#include "base/rng.hpp"
#include "sync/factory.hpp"

namespace rubato::cluster {
namespace {

// The device has the plan's model, with what is frozen.
Result<void> build_device(const ClusterPlan& plan, int batch_max, train::Device& device) {
  RUBATO_TRY(device.build(plan.spec, batch_max));
  if (!plan.start.trained.all()) device.freeze(plan.start.trained, *plan.start.values);
  return {};
}

Result<std::unique_ptr<train::Device>> make_device(const ClusterConfig& config,
                                                   train::DeviceOptions options) {
  if (train::gpu_number(config.worker_device)) options.precision = config.precision;
  return train::make_device(config.worker_device, options);
}

}  // namespace

Result<std::unique_ptr<train::Device>> plan_device(const ClusterConfig& config,
                                                   const ClusterPlan& plan, int batch_max) {
  RUBATO_ASSIGN(auto device, make_device(config, {}));
  RUBATO_TRY(build_device(plan, batch_max, *device));
  return device;
}

Result<train::LocalTrainer> make_trainer(const ClusterConfig& config, const ClusterPlan& plan,
                                         std::uint32_t index, const train::Dataset& train,
                                         std::vector<std::uint32_t> samples,
                                         const train::DeviceOptions& options) {
  RUBATO_ASSIGN(auto device, make_device(config, options));
  return make_trainer(config, plan, index, train, std::move(samples), std::move(device));
}

Result<train::LocalTrainer> make_trainer(const ClusterConfig& config, const ClusterPlan& plan,
                                         std::uint32_t index, const train::Dataset& train,
                                         std::vector<std::uint32_t> samples,
                                         std::unique_ptr<train::Device> device) {
  RUBATO_TRY(
      build_device(plan, sync::batch_max(plan.sync, config.sync, config.training.batch), *device));
  train::BatchSampler sampler(
      std::move(samples),
      Rng(plan.seed, static_cast<std::uint64_t>(Stream::Sampler), stream_of(plan, index)));
  const TrainingConfig& training = config.training;
  return train::LocalTrainer(std::move(device), train, std::move(sampler), training.batch,
                             {.initial = training.learning_rate,
                              .schedule = training.schedule,
                              .decay = training.decay,
                              .decay_steps = static_cast<double>(training.decay_steps),
                              .warmup_steps = static_cast<std::uint64_t>(training.warmup_steps)},
                             training.optimizer);
}

}  // namespace rubato::cluster
