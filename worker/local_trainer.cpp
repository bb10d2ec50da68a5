#include "worker/local_trainer.hpp"

#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace rubato::worker {

double LearningRate::at(std::uint64_t step) const {
  return initial * std::pow(decay, static_cast<double>(step) / decay_steps);
}

LocalTrainer::LocalTrainer(std::unique_ptr<Device> device, const Dataset& data,
                           BatchSampler sampler, int batch, LearningRate rate)
    : device_(std::move(device)), data_(&data), sampler_(std::move(sampler)), rate_(rate) {
  RUBATO_CHECK(batch >= 1 && batch <= device_->batch_max(), "batch size outside 1..batch_max");
  const auto size = static_cast<std::size_t>(batch);
  indices_.resize(size);
  labels_.resize(size);
  inputs_.resize(size * static_cast<std::size_t>(data.shape.count()));
  sampler_.next(indices_);
}

BatchResult LocalTrainer::step() {
  data_->gather(indices_, inputs_, labels_);
  sampler_.next(indices_);
  data_->prefetch(indices_);
  const auto rate = static_cast<float>(rate_.at(steps_++));
  return device_->step({inputs_, labels_, batch()}, rate);
}

}  // namespace rubato::worker
