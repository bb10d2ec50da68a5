// train/reference_device.hpp - the plain device: ReferenceNetwork<float> behind the Device
// interface, to compare every other device with.
#pragma once

#include <optional>
#include <vector>

#include "train/host_device.hpp"
#include "train/reference_network.hpp"

namespace rubato::train {

class ReferenceDevice final : public HostDevice {
 public:
  std::string_view name() const override { return "reference"; }
  [[nodiscard]] Result<void> build(const ModelSpec& spec, int batch_max) override;
  int batch_max() const override { return batch_max_; }
  std::optional<BatchResult> step_early(const Batch& batch, float rate,
                                        const Arriving& arriving) override;
  BatchResult gradient(const Batch& batch, std::span<float> out) override;
  BatchResult evaluate(const Batch& batch) override;
  void scores(std::span<float> out) const override;

 private:
  std::optional<ReferenceNetwork<float>> network_;  // empty before build()
  Shape input_;
  int batch_max_ = 0;
};

}  // namespace rubato::train
