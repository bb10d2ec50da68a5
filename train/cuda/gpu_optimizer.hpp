// train/cuda/gpu_optimizer.hpp - the local optimizer (train/local_optimizer.hpp) on the GPU's
// stream Compute: the same arithmetic, and W and U move in the same pass.
// Memory: the moments that the optimizer has, from set() on. Lifetime: the GPU outlives it.
// Threads: one owner.
#pragma once

#include "train/cuda/gpu_replica.hpp"
#include "train/local_optimizer.hpp"

namespace rubato::train::cuda {

class GpuOptimizer {
 public:
  // Plain SGD.
  [[nodiscard]] static Result<GpuOptimizer> make(Gpu& gpu, std::size_t parameters);
  // From the next step on; its moments are 0. Steps that were recorded before are void. Requires:
  // no work is queued on any stream.
  void set(Gpu& gpu, const LocalOptimizerOptions& options);
  // Of the next step. It counts when step_made() says so.
  StepScalars scalars(float rate) const;
  void step_made() { ++steps_; }
  // The step along the replica's gradient, by `scalars` in the GPU's memory.
  void step(Gpu& gpu, const GpuReplica& replica, const StepScalars* scalars) const;

 private:
  LocalOptimizerOptions options_;
  std::uint64_t steps_ = 0;
  std::size_t parameters_ = 0;
  Memory moments_[2];  // as LocalOptimizer's velocity and square
  Memory squares_;     // double [kSquareParts + kSquareRest]
  Memory clip_;        // float
};

}  // namespace rubato::train::cuda
