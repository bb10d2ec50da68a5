// train/cuda/precision.hpp - how a GPU computes products and convolutions. Sums and results are
// float32 in all of them.
#pragma once

namespace rubato::train::cuda {

enum class Precision {
  Float32,
  Tf32,  // inputs are rounded to 10 bits of mantissa; needs compute capability 8.0
  Bf16,  // of products: inputs are rounded to 7 bits, likewise; of convolutions: as Tf32
};

}  // namespace rubato::train::cuda
