// train/cuda/cuda_limits.hpp - the limits of a GPU.
#pragma once

#include "train/cuda/gpu.hpp"
#include "train/device_limits.hpp"

namespace rubato::train::cuda {

struct LimitSizes {
  int side = 4096;                                 // of square matrices
  std::size_t copied = std::size_t{1} << 28;       // bytes within the GPU's memory
  std::size_t transferred = std::size_t{1} << 26;  // bytes between the GPU and the host
};

// Errors: as Gpu::allocate().
[[nodiscard]] Result<DeviceLimits> gpu_limits(Gpu& gpu, Duration time,
                                              const LimitSizes& sizes = {});

}  // namespace rubato::train::cuda
