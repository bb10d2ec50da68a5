// train/cuda/gpu_replica.hpp - the parameters W and the accumulated update U of the CUDA device, in
// the GPU's memory: train/host_replica.hpp for a GPU. Steps go on while parameters come and while
// an update leaves: there are two buffers for U, and pinned memory for each way.
// U is a plain float32 sum. Over 100,000 steps of training its relative error was 1.4e-5
// (tests/train/cuda_device_test.cpp), so it needs no compensation.
// Words and shapes: as train/host_replica.hpp; spans have count() elements unless they say
// otherwise (checked).
// Memory: W, the gradient, two of U and one for what arrives; pinned, two; and that of
// train/cuda/gpu_packer.hpp.
// Lifetime: the GPU outlives it. Threads: one owner.
#pragma once

#include <memory>
#include <span>

#include "base/shareable.hpp"
#include "train/cuda/gpu_packer.hpp"
#include "train/model/trained_part.hpp"

namespace rubato::train::cuda {

class GpuReplica {
 public:
  // All 0.
  [[nodiscard]] static Result<GpuReplica> make(Gpu& gpu, std::size_t parameters);

  std::size_t count() const { return trained_.count(); }
  std::size_t parameters() const { return trained_.parameters(); }
  float* weights() const { return weights_.as<float>(); }           // W of the whole model
  float* gradient() const { return gradient_.as<float>(); }         // of the whole model
  float* update() const { return updates_[current_].as<float>(); }  // U
  TrainedPlaces places() const { return {places_.as<std::uint32_t>()}; }

  // From now on `part` is trained; the others stay as in `model`, which has all. Requires: no step
  // yet.
  void freeze(const TrainedPart& part, std::span<const float> model);
  // Parameters are on their way to the GPU. Another thread may call it while its owner steps.
  void stage(std::span<const float> parameters);
  // W <- those, and without U where that is wanted, behind the steps that are queued.
  void load_staged(bool under_update);

  // W from `begin` on, while parameters arrive: part() is pinned memory to be filled, and put()
  // brings it to W before the work that is queued on Compute afterwards. Requires: nothing is
  // frozen; begin_parts() was called behind the step before.
  void begin_parts();
  std::span<float> part(std::size_t begin, std::size_t count);
  void put(std::size_t begin, std::size_t count);

  // out <- W; waits.
  void read(std::span<float> out) const;
  // out [parameters()] <- the gradient; waits.
  void read_gradient(std::span<float> out) const;

  // As OwnMemory::begin_update() and finish_update().
  void begin_update(const Packing& packing);
  bool end_update(Floats& out);

 private:
  explicit GpuReplica(Gpu& gpu) : gpu_(&gpu) {}
  // The pinned memory for parameters <- `from`, of the whole model. Compute waits for what is in it
  // already.
  std::span<const float> fetch(const float* from) const;

  Gpu* gpu_;
  TrainedPart trained_;
  Memory weights_, gradient_, updates_[2], arrived_;
  Memory places_;   // uint32 [count()]; empty if all is trained
  Memory staged_;   // pinned: parameters on their way to the GPU, or W or a gradient back
  Memory leaving_;  // pinned: U on its way, packed or not
  Memory broken_, is_broken_;        // int32: U has numbers that are not finite; pinned
  std::unique_ptr<Event> uploaded_;  // what is in staged_
  std::unique_ptr<Event> used_;      // Compute is done with arrived_, or with W
  std::unique_ptr<Event> taken_, downloaded_;
  GpuPacker packer_;
  int current_ = 0;  // of updates_
  bool leaves_ = false;
  std::size_t leaving_floats_ = 0;  // of U on its way, packed or not
};

}  // namespace rubato::train::cuda
