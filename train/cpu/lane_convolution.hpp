// train/cpu/lane_convolution.hpp - a convolution of a square kernel, stride 1 and no padding, for
// one block of samples side by side in the lanes of a vector. Errors: none. Threads: one owner.
#pragma once

#include <vector>

#include "train/cpu/lane_kernels.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

class LaneConvolution {
 public:
  LaneConvolution(const LaneKernels& kernels, const LayerPlan& plan, const Conv2d& conv);

  // Takes over the weights and biases of the model's flat vector, before forward().
  void load(const float* parameters);
  void forward(const float* x, float* y) const;
  // dx <- the gradient of x, from dy, that of y. load_transposed(): as load(), for this.
  void load_transposed(const float* parameters);
  void backward(const float* dy, float* dx) const;
  // Adds this block's share to the model's flat gradient.
  void add_gradient(const float* x, const float* dy, float* gradient) const;

 private:
  const LaneKernels& kernels_;
  LayerPlan plan_;
  LaneWalk walk_;
  std::vector<float> weights_;     // [tile of outputs][kernel, kernel, inputs][outputs of a tile]
  std::vector<float> transposed_;  // [tile of inputs][kernel, kernel, outputs][inputs of a tile]
  std::vector<float> biases_;
};

}  // namespace rubato::train
