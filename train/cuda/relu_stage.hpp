// train/cuda/relu_stage.hpp - a ReLU that no stage before it took along (train/cuda/stage.hpp).
#pragma once

#include "train/cuda/stage.hpp"

namespace rubato::train::cuda {

class ReluStage {
 public:
  explicit ReluStage(const LayerPlan& plan) : count_(plan.input.count()) {}
  void forward(const Pass& pass, const float* input, float* output) const {
    pass.gpu.launch(Stream::Compute, static_cast<std::size_t>(pass.size) * count_,
                    ReluForward{input, output});
  }
  void backward(const Pass& pass, const float* /*input*/, const float* output,
                float* output_gradient, float* input_gradient) const {
    if (!input_gradient) return;
    pass.gpu.launch(Stream::Compute, static_cast<std::size_t>(pass.size) * count_,
                    ReluBackward{output, output_gradient, input_gradient});
  }

 private:
  int count_;  // of one sample
};

}  // namespace rubato::train::cuda
