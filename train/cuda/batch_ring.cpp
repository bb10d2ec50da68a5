#include "train/cuda/batch_ring.hpp"

#include <algorithm>
#include <cstring>

namespace rubato::train::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

BatchResult result_of(const BatchSums& sums, int samples) {
  return {.loss_sum = sums.loss, .correct = sums.correct, .samples = samples};
}

}  // namespace

std::unique_ptr<Graph>& BatchRing::Slot::recorded() {
  const auto found =
      std::ranges::find(recorded_, kind_, [](const auto& each) { return each.first; });
  if (found != recorded_.end()) return found->second;
  return recorded_.emplace_back(kind_, nullptr).second;
}

Result<BatchRing> BatchRing::make(Gpu& gpu, const Shape& input, int batch_max) {
  BatchRing ring(gpu);
  const auto samples = static_cast<std::size_t>(batch_max);
  for (Slot& slot : ring.slots_) {
    slot.samples_at_ = aligned(sizeof(StepScalars));
    slot.answers_at_ = slot.samples_at_ + aligned(samples * sizeof(std::uint32_t));
    slot.weights_at_ = slot.answers_at_ + aligned(samples * sizeof(float));
    slot.inputs_at_ = slot.weights_at_ + aligned(samples * sizeof(float));
    const std::size_t bytes = slot.inputs_at_ + samples * input.count() * sizeof(float);
    RUBATO_ASSIGN(slot.pinned_, gpu.allocate_pinned(bytes));
    RUBATO_ASSIGN(slot.memory_, gpu.allocate(bytes));
    RUBATO_ASSIGN(slot.sums_, gpu.allocate_pinned(sizeof(BatchSums)));
    slot.uploaded_ = gpu.event();
    slot.done_ = gpu.event();
  }
  return ring;
}

BatchRing::Slot& BatchRing::fill(const Batch& batch, bool weighted, const StepScalars& scalars) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  gpu_->wait(*slot.done_);
  collect(slot);
  slot.kind_ = {batch.size, !batch.samples.empty(), weighted};
  auto* const pinned = slot.pinned_.as<std::byte>();
  std::memcpy(pinned, &scalars, sizeof(scalars));
  std::size_t bytes = 0;
  const auto put = [&](auto values, std::size_t at) {
    if (values.empty()) return;
    std::memcpy(pinned + at, values.data(), values.size_bytes());
    bytes = at + values.size_bytes();
  };
  put(batch.samples, slot.samples_at_);
  put(batch.labels, slot.answers_at_);
  put(batch.targets, slot.answers_at_);
  put(batch.weights, slot.weights_at_);
  put(batch.inputs, slot.inputs_at_);
  gpu_->copy(Stream::Upload, slot.memory_.as<std::byte>(), pinned, bytes);
  gpu_->record(*slot.uploaded_, Stream::Upload);
  gpu_->wait(Stream::Compute, *slot.uploaded_);
  return slot;
}

void BatchRing::end_step(Slot& slot) {
  gpu_->record(*slot.done_, Stream::Compute);
  slot.step_ = ++steps_;
}

BatchResult BatchRing::finish(Slot& slot) {
  gpu_->record(*slot.done_, Stream::Compute);
  gpu_->wait(*slot.done_);
  return result_of(*slot.sums(), slot.kind_.size);
}

void BatchRing::give_up(Slot& slot) {
  gpu_->record(*slot.done_, Stream::Compute);
}

void BatchRing::collect(Slot& slot) {
  if (!slot.step_) return;
  const BatchResult result = result_of(*slot.sums(), slot.kind_.size);
  results_.loss_sum += result.loss_sum;
  results_.correct += result.correct;
  results_.samples += result.samples;
  slot.step_.reset();
}

void BatchRing::collect(std::uint64_t steps) {
  for (std::size_t i = 0; i < kSlots; ++i) {  // in the order of the steps
    Slot& slot = slots_[(next_ + i) % kSlots];
    if (!slot.step_ || *slot.step_ > steps) continue;
    gpu_->wait(*slot.done_);
    collect(slot);
  }
}

bool BatchRing::is_first(StepKind kind) {
  if (std::ranges::find(made_, kind) != made_.end()) return false;
  made_.push_back(kind);
  return true;
}

void BatchRing::forget(int size) {
  gpu_->wait(Stream::Compute);
  std::erase_if(made_, [&](StepKind kind) { return kind.size == size; });
  for (Slot& slot : slots_)
    std::erase_if(slot.recorded_, [&](const auto& each) { return each.first.size == size; });
}

void BatchRing::forget_all() {
  gpu_->wait(Stream::Compute);
  made_.clear();
  for (Slot& slot : slots_) slot.recorded_.clear();
}

}  // namespace rubato::train::cuda
