// cluster/plan_training.hpp - the device and the trainer that a plan asks for.
#pragma once

#include <memory>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_plan.hpp"
#include "train/device.hpp"
#include "train/local_trainer.hpp"

namespace rubato::cluster {

// A device of the plan's model for mini-batches of up to `batch_max`, with what is frozen.
[[nodiscard]] Result<std::unique_ptr<train::Device>> plan_device(const ClusterConfig& config,
                                                                 const ClusterPlan& plan,
                                                                 int batch_max);

// The trainer of worker `index`, on its own samples and its own stream. `options`: of its device.
// Only the default ones give the same bits for the same seed.
[[nodiscard]] Result<train::LocalTrainer> make_trainer(const ClusterConfig& config,
                                                       const ClusterPlan& plan, std::uint32_t index,
                                                       const train::Dataset& train,
                                                       std::vector<std::uint32_t> samples,
                                                       const train::DeviceOptions& options = {});
// make_trainer() on this device in place of the one that the cluster file names. Requires: it is
// not built.
[[nodiscard]] Result<train::LocalTrainer> make_trainer(const ClusterConfig& config,
                                                       const ClusterPlan& plan, std::uint32_t index,
                                                       const train::Dataset& train,
                                                       std::vector<std::uint32_t> samples,
                                                       std::unique_ptr<train::Device> device);

}  // namespace rubato::cluster
