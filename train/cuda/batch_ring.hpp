// train/cuda/batch_ring.hpp - batches on their way to the GPU and the sums of their losses on the
// way back: a few slots, each with pinned memory and its image on the GPU. A slot is used again
// when the GPU is done with it, so the host is at most kSlots batches ahead.
// Lifetime: the GPU outlives it. Threads: one owner.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "train/cuda/kept_data.hpp"
#include "train/cuda/stage.hpp"
#include "train/device.hpp"

namespace rubato::train::cuda {

class BatchRing {
 public:
  static constexpr std::size_t kSlots = 4;

  // What a recorded step belongs to.
  struct StepKind {
    int size = 0;
    bool chosen = false;    // its samples are chosen from the data on the GPU
    bool weighted = false;  // its samples have weights of their own
    bool operator==(const StepKind&) const = default;
  };

  class Slot {
   public:
    // In the GPU's memory.
    const StepScalars* scalars() const { return memory_.as<StepScalars>(); }
    std::byte* answers() const { return memory_.as<std::byte>() + answers_at_; }
    std::byte* weights() const { return memory_.as<std::byte>() + weights_at_; }
    float* inputs() const { return reinterpret_cast<float*>(memory_.as<std::byte>() + inputs_at_); }
    const std::uint32_t* samples() const {
      return reinterpret_cast<const std::uint32_t*>(memory_.as<std::byte>() + samples_at_);
    }
    // Pinned: where the work of this batch brings its sums.
    BatchSums* sums() const { return sums_.as<BatchSums>(); }
    StepKind kind() const { return kind_; }
    // The step that was recorded for this slot and a batch of its kind, or an empty pointer.
    std::unique_ptr<Graph>& recorded();

   private:
    friend class BatchRing;
    Memory pinned_, memory_;  // the parts below, one behind the other
    Memory sums_;
    std::size_t samples_at_ = 0, answers_at_ = 0, weights_at_ = 0, inputs_at_ = 0;
    std::unique_ptr<Event> uploaded_, done_;
    StepKind kind_;
    std::optional<std::uint64_t> step_;  // its number; nobody has read its sums
    std::vector<std::pair<StepKind, std::unique_ptr<Graph>>> recorded_;
  };

  [[nodiscard]] static Result<BatchRing> make(Gpu& gpu, const Shape& input, int batch_max);

  // The next slot holds `batch` and `scalars`, for work that is queued on Compute from now on.
  // `weighted`: its samples have weights, here or in the data on the GPU. Waits until the GPU is
  // done with the batch that was there. Requires: a checked batch.
  Slot& fill(const Batch& batch, bool weighted, const StepScalars& scalars);
  // The work of the batch is queued. Its sums belong to a step.
  void end_step(Slot& slot);
  // The work of the batch is queued. Returns: its sums; waits.
  BatchResult finish(Slot& slot);
  // The work of the batch is queued, and nobody wants the sums.
  void give_up(Slot& slot);

  std::uint64_t steps() const { return steps_; }
  // Reads the sums of all steps up to this number; waits.
  void collect(std::uint64_t steps);
  // The sums that were read since the last call.
  BatchResult take_results() { return std::exchange(results_, {}); }

  // Whether no step of this kind was made since it was forgotten; now one is.
  bool is_first(StepKind kind);
  // Steps of this size, or all, are forgotten: their recordings are gone. Waits.
  void forget(int size);
  void forget_all();

 private:
  explicit BatchRing(Gpu& gpu) : gpu_(&gpu) {}
  void collect(Slot& slot);

  Gpu* gpu_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
  std::uint64_t steps_ = 0;
  BatchResult results_;
  std::vector<StepKind> made_;
};

}  // namespace rubato::train::cuda
