// train/cuda/kernels.hpp - the arithmetic of our own kernels, written once: the GPU runs
// operator()(i) in one thread for each i, tests run it in a loop. Each is pure but for the memory
// that it names. No kernel depends on the order of its i.
#pragma once

#include <cstddef>
#include <variant>

#ifdef __CUDACC__
#define RUBATO_KERNEL __host__ __device__
#else
#define RUBATO_KERNEL
#endif

namespace rubato::train::cuda {

// y [count] <- max(x, 0). NaN passes through, so that a broken update is seen.
struct ReluForward {
  const float* x;
  float* y;
  RUBATO_KERNEL void operator()(std::size_t i) const { y[i] = x[i] < 0 ? 0.0f : x[i]; }
};

using Kernel = std::variant<ReluForward>;

}  // namespace rubato::train::cuda
