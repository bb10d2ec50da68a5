// train/cpu/response_norm.hpp - local response norm across channels. oneDNN 2.6 has a fast one for
// windows of 5 channels only, and spends most of a step in the plain one for the others.
//   y_c = x_c s_c^-beta,   s_c = bias + alpha sum_{|j - c| <= radius} x_j^2
// Shapes: activations [samples, channels / block, positions, block], so block = channels is NHWC
// and block = 16 is oneDNN's nChw16c, whose channels are filled up with zeros: they stay zeros.
// Threads: pure.
#pragma once

#include <cstddef>
#include <vector>

#include "train/model/model_spec.hpp"

namespace rubato::train {

class ResponseNorm {
 public:
  // Requires: channels is a multiple of block.
  ResponseNorm(const LocalResponseNorm& norm, int channels, int positions, int block);

  void forward(int samples, const float* x, float* y);
  // dx <- the gradient of x, from dy, that of y.
  void backward(int samples, const float* x, const float* dy, float* dx);

 private:
  void fill_powers();
  void sum_windows(const float* padded);
  void gather(const float* first, float* row) const;
  void scatter(const float* row, float* first) const;

  LocalResponseNorm norm_;
  std::ptrdiff_t channels_, positions_, block_;
  // At one position, [channels]; padded: with `radius` zeros on both sides.
  std::vector<float> x_, dy_, padded_, sums_, scales_, powers_;
};

}  // namespace rubato::train
