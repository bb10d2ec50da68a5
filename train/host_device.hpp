// train/host_device.hpp - what devices share that keep W and U in host memory: all but the
// gradient.
// Threads: as train/device.hpp.
#pragma once

#include <cstddef>
#include <vector>

#include "train/device.hpp"
#include "train/host_replica.hpp"

namespace rubato::train {

class HostDevice : public Device {
 public:
  std::size_t parameter_count() const final { return replica_.count(); }
  void freeze(const TrainedPart& trained, std::span<const float> model) final {
    replica_.freeze(trained, model);
  }
  void load(std::span<const float> parameters) final { replica_.load(parameters); }
  void load_under_update(std::span<const float> parameters) final {
    replica_.load_under_update(parameters);
  }
  void read(std::span<float> out) const final { replica_.read(out); }
  void set_optimizer(const LocalOptimizerOptions& options) final {
    optimizer_ = LocalOptimizer(options, gradient_.size());
  }
  bool take_update(Floats& out) final { return replica_.take_update(out); }
  void give(Floats& buffer) final { replica_.give(buffer); }
  BatchResult step(const Batch& batch, float rate) override {
    const BatchResult result = gradient(batch, gradient_);
    descend(rate);
    return result;
  }

 protected:
  explicit HostDevice(std::size_t parameters = 0) { hold(parameters); }
  // W of so many parameters, all 0.
  void hold(std::size_t parameters) {
    replica_ = HostReplica(parameters);
    gradient_.resize(parameters);
  }

  // The step along gradient_, which it overwrites.
  void descend(float rate) {
    if (optimizer_.plain()) return replica_.descend(gradient_, rate);
    replica_.trained().clear_frozen(gradient_);  // clipping looks at what is trained
    optimizer_.turn(gradient_, replica_.weights(), rate);
    replica_.descend(gradient_, 1.0f);
  }

  HostReplica replica_{0};
  std::vector<float> gradient_;

 private:
  LocalOptimizer optimizer_;
};

}  // namespace rubato::train
