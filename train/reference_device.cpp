#include "train/reference_device.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace rubato::train {

Result<void> ReferenceDevice::build(const ModelSpec& spec, int batch_max) {
  RUBATO_CHECK(!network_, "build() twice");
  RUBATO_CHECK(batch_max > 0, "a batch of no samples");
  RUBATO_ASSIGN(auto plans, plan_layers(spec));
  network_.emplace(spec, std::move(plans));
  hold(train::parameter_count(spec));
  input_ = spec.input;
  batch_max_ = batch_max;
  return {};
}

std::optional<BatchResult> ReferenceDevice::step_early(const Batch& batch, float rate,
                                                       const Arriving& arriving) {
  check_batch(batch, input_, batch_max_);
  const auto fetch = [&](std::uint64_t begin, std::uint64_t end) {
    return arriving(begin, replica_.part(begin, end - begin));
  };
  const auto result =
      network_->gradient_early(replica_.weights(), batch.inputs, batch.answers(), gradient_, fetch);
  if (result) descend(rate);
  return result;
}

BatchResult ReferenceDevice::gradient(const Batch& batch, std::span<float> out) {
  check_batch(batch, input_, batch_max_);
  RUBATO_CHECK(out.size() == gradient_.size(), "room for another model's gradient");
  return network_->gradient(replica_.weights(), batch.inputs, batch.answers(), out);
}

BatchResult ReferenceDevice::evaluate(const Batch& batch) {
  check_batch(batch, input_, batch_max_);
  return network_->evaluate(replica_.weights(), batch.inputs, batch.answers());
}

void ReferenceDevice::scores(std::span<float> out) const {
  const auto scores = network_->scores();
  RUBATO_CHECK(out.size() <= scores.size(), "scores of more samples than were evaluated");
  std::copy_n(scores.begin(), out.size(), out.begin());
}

}  // namespace rubato::train
