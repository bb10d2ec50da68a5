// worker/reference_device.hpp - the plain device: ReferenceNetwork<float> behind the Device
// interface, to compare every other device with.
#pragma once

#include <optional>
#include <vector>

#include "worker/device.hpp"
#include "worker/host_replica.hpp"
#include "worker/reference_network.hpp"

namespace rubato::worker {

class ReferenceDevice final : public Device {
 public:
  std::string_view name() const override { return "reference"; }
  [[nodiscard]] Result<void> build(const ModelSpec& spec, int batch_max) override;
  std::size_t parameter_count() const override { return replica_.count(); }
  int batch_max() const override { return batch_max_; }
  void load(std::span<const float> parameters) override { replica_.load(parameters); }
  void load_under_update(std::span<const float> parameters) override {
    replica_.load_under_update(parameters);
  }
  void read(std::span<float> out) const override { replica_.read(out); }
  bool take_update(std::vector<float>& out) override { return replica_.take_update(out); }
  void give(std::vector<float>& buffer) override { replica_.give(buffer); }
  BatchResult step(const Batch& batch, float rate) override;
  std::optional<BatchResult> step_early(const Batch& batch, float rate,
                                        const Arriving& arriving) override;
  BatchResult gradient(const Batch& batch, std::span<float> out) override;
  BatchResult evaluate(const Batch& batch) override;

 private:
  std::optional<ReferenceNetwork<float>> network_;  // empty before build()
  HostReplica replica_{0};
  std::vector<float> gradient_;
  Shape input_;
  int batch_max_ = 0;
};

}  // namespace rubato::worker
