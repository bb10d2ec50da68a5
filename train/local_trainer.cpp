#include "train/local_trainer.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace rubato::train {

LocalTrainer::LocalTrainer(std::unique_ptr<Device> device, const Dataset& data,
                           BatchSampler sampler, int batch, LearningRate rate,
                           const LocalOptimizerOptions& optimizer)
    : device_(std::move(device)),
      data_(&data),
      kept_(device_->keep(data)),
      sampler_(std::move(sampler)),
      rate_(rate),
      optimizer_(optimizer),
      configured_batch_(batch),
      batch_(batch) {
  RUBATO_CHECK(batch >= 1 && batch <= device_->batch_max(), "batch size outside 1..batch_max");
  const auto size = static_cast<std::size_t>(device_->batch_max());
  indices_.resize(size);
  device_->set_optimizer(optimizer_);
  if (kept_) {
    samples_.resize(size);
    return;
  }
  if (data.task() == Task::Classification) {
    labels_.resize(size);
  } else {
    targets_.resize(size);
  }
  if (!data.weights.empty()) weights_.resize(size);
  inputs_.resize(size * static_cast<std::size_t>(data.shape.count()));
}

void LocalTrainer::set_plan(const StepPlan& plan) {
  const auto most = static_cast<std::uint32_t>(device_->batch_max());
  batch_ = plan.batch == 0 ? configured_batch_ : static_cast<int>(std::min(plan.batch, most));
  part_ = plan.rate;
}

void LocalTrainer::skip(std::uint64_t steps) {
  const auto size = static_cast<std::size_t>(configured_batch_);
  for (std::uint64_t i = 0; i < steps; ++i) {
    drawn_ = 0;
    draw(size);
  }
  drawn_ = 0;
  steps_ += steps;
}

bool LocalTrainer::take_parameters(Floats& out) {
  const bool finite = device_->take_update(out);
  device_->read(out);
  return finite && all_finite(out);
}

void LocalTrainer::drop_update() {
  Floats dropped;
  device_->take_update(dropped);
  device_->set_optimizer(optimizer_);
}

void LocalTrainer::draw(std::size_t size) {
  if (drawn_ >= size) return;
  sampler_.next(std::span(indices_).subspan(drawn_, size - drawn_));
  drawn_ = size;
}

Batch LocalTrainer::gather() {
  const auto size = static_cast<std::size_t>(batch_);
  draw(size);
  const auto indices = std::span(indices_).first(size);
  if (kept_) {
    std::ranges::copy(indices, samples_.begin());
    return {.inputs = {}, .labels = {}, .size = batch_, .samples = std::span(samples_).first(size)};
  }
  const auto inputs =
      std::span(inputs_).first(size * static_cast<std::size_t>(data_->shape.count()));
  Batch batch{.inputs = inputs, .labels = {}, .size = batch_};
  if (targets_.empty()) {
    const auto labels = std::span(labels_).first(size);
    data_->gather(indices, inputs, labels);
    batch.labels = labels;
  } else {
    const auto targets = std::span(targets_).first(size);
    data_->gather(indices, inputs, targets);
    batch.targets = targets;
  }
  if (!weights_.empty()) {
    const auto weights = std::span(weights_).first(size);
    data_->gather_weights(indices, weights);
    batch.weights = weights;
  }
  return batch;
}

void LocalTrainer::next() {
  const auto size = static_cast<std::size_t>(batch_);
  std::shift_left(indices_.begin(), indices_.begin() + static_cast<std::ptrdiff_t>(drawn_),
                  static_cast<std::ptrdiff_t>(size));
  drawn_ -= size;
  draw(size);  // the next, if nobody changes its size
  if (!kept_) data_->prefetch(std::span(indices_).first(size));
  ++steps_;
}

float LocalTrainer::rate() const {
  return static_cast<float>(rate_.at(steps_) * part_);
}

BatchResult LocalTrainer::step() {
  const Batch batch = gather();
  const float by = rate();
  next();
  return device_->step(batch, by);
}

std::optional<BatchResult> LocalTrainer::step_early(const Arriving& arriving) {
  const auto result = device_->step_early(gather(), rate(), arriving);
  if (result) next();
  return result;
}

}  // namespace rubato::train
