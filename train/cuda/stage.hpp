// train/cuda/stage.hpp - what the stages of the CUDA device share. A stage is one part of its
// pipeline; all of them queue work on Compute and have the same functions:
//   make:     a stage for batches of up to batch_max; Unsupported where memory is short
//   forward:  output <- f(input)
//   backward: given output_gradient (which it may overwrite), overwrites input_gradient, unless
//             that is null, and this stage's part of pass.gradient. After a forward() of the batch.
// Activations are [size, count] row-major in NCHW.
// Threads: one owner.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "train/cuda/gpu.hpp"

namespace rubato::train::cuda {

// One way forward, or there and back.
struct Pass {
  Gpu& gpu;
  const float* weights;  // of the whole model
  float* gradient;       // of the whole model; null on a way forward alone
  int size;              // samples of the batch
};

[[nodiscard]] inline Result<Memory> allocate_floats(Gpu& gpu, std::size_t count) {
  return gpu.allocate(count * sizeof(float));
}

// In how many parts `count` values are added: one thread each, then one for all parts.
inline std::uint32_t parts_of_sum(std::size_t count) {
  constexpr std::size_t kAlone = 32;  // a second kernel would take longer
  return count <= kAlone
             ? 1
             : static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(count))));
}

}  // namespace rubato::train::cuda
