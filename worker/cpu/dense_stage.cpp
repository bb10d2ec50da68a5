#include "worker/cpu/dense_stage.hpp"

#include <cblas.h>

#include <algorithm>
#include <cstddef>

namespace rubato::worker {

void DenseStage::forward(const float* parameters, const float* input, float* output, int size) {
  const int inputs = plan_.input.count();
  const int outputs = plan_.output.count();
  for (int b = 0; b < size; ++b) {
    std::copy_n(parameters + plan_.bias_offset, outputs,
                output + static_cast<std::ptrdiff_t>(b) * outputs);
  }
  // output [B,O] = bias + input [B,I] weights^T [I,O]
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size, outputs, inputs, 1.0f, input, inputs,
              parameters + plan_.weight_offset, inputs, 1.0f, output, outputs);
  if (relu_) {
    const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(size) * outputs;
    for (std::ptrdiff_t i = 0; i < count; ++i) output[i] = output[i] < 0 ? 0.0f : output[i];
  }
}

void DenseStage::backward(const float* parameters, const float* input, const float* output,
                          float* output_gradient, float* input_gradient, float* gradient,
                          int size) {
  const int inputs = plan_.input.count();
  const int outputs = plan_.output.count();
  float* bias_gradient = gradient + plan_.bias_offset;
  std::fill_n(bias_gradient, outputs, 0.0f);
  for (int b = 0; b < size; ++b) {
    const float* y = output + static_cast<std::ptrdiff_t>(b) * outputs;
    float* dy = output_gradient + static_cast<std::ptrdiff_t>(b) * outputs;
    for (int o = 0; o < outputs; ++o) {
      if (relu_) dy[o] = y[o] > 0 ? dy[o] : 0.0f;
      bias_gradient[o] += dy[o];
    }
  }
  // weights' gradient [O,I] = output_gradient^T [O,B] input [B,I]
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, inputs, size, 1.0f, output_gradient,
              outputs, input, inputs, 0.0f, gradient + plan_.weight_offset, inputs);
  if (input_gradient) {  // [B,I] = output_gradient [B,O] weights [O,I]
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, inputs, outputs, 1.0f,
                output_gradient, outputs, parameters + plan_.weight_offset, inputs, 0.0f,
                input_gradient, inputs);
  }
}

}  // namespace rubato::worker
