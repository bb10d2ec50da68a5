#include "train/cpu/dense_stage.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/multiversion.hpp"

namespace rubato::train {
namespace {

using Index = std::ptrdiff_t;

// y [size, outputs] <- y + bias, then ReLU if wanted. NaN passes through.
RUBATO_MULTIVERSION void add_bias(float* y, const float* bias, Index size, Index outputs,
                                  bool relu) {
  const float floor = relu ? 0.0f : -std::numeric_limits<float>::infinity();
  for (Index b = 0; b < size; ++b, y += outputs) {
    for (Index o = 0; o < outputs; ++o) {
      const float sum = y[o] + bias[o];
      y[o] = sum < floor ? floor : sum;
    }
  }
}

// dy [size, outputs] <- 0 where y is not positive (with ReLU); bias_gradient [outputs] <- its sum.
RUBATO_MULTIVERSION void bias_backward(const float* y, float* dy, float* bias_gradient, Index size,
                                       Index outputs, bool relu) {
  std::fill_n(bias_gradient, outputs, 0.0f);
  for (Index b = 0; b < size; ++b, y += outputs, dy += outputs) {
    if (relu) {
      for (Index o = 0; o < outputs; ++o) dy[o] = y[o] > 0 ? dy[o] : 0.0f;
    }
    for (Index o = 0; o < outputs; ++o) bias_gradient[o] += dy[o];
  }
}

}  // namespace

void DenseStage::forward(const float* parameters, const float* input, float* output, int size) {
  const int outputs = plan_.output.count();
  multiplier_->multiply(products(size).forward(input, parameters + plan_.weight_offset), output,
                        outputs);
  add_bias(output, parameters + plan_.bias_offset, size, outputs, relu_);
  clock_.lap(0);
}

void DenseStage::backward(const float* parameters, const float* input, const float* output,
                          float* output_gradient, float* input_gradient, float* gradient,
                          int size) {
  const int inputs = plan_.input.count();
  const int outputs = plan_.output.count();
  bias_backward(output, output_gradient, gradient + plan_.bias_offset, size, outputs, relu_);
  multiplier_->multiply(products(size).weights(output_gradient, input),
                        gradient + plan_.weight_offset, inputs);
  if (input_gradient)
    multiplier_->multiply(products(size).back(output_gradient, parameters + plan_.weight_offset),
                          input_gradient, inputs);
  clock_.lap(0);
}

}  // namespace rubato::train
