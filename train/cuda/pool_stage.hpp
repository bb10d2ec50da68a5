// train/cuda/pool_stage.hpp - a maximum pool (train/cuda/stage.hpp).
#pragma once

#include "train/cuda/stage.hpp"

namespace rubato::train::cuda {

class PoolStage {
 public:
  [[nodiscard]] static Result<PoolStage> make(Gpu& gpu, const LayerPlan& plan,
                                              const MaxPool2d& layer, int batch_max);
  void forward(const Pass& pass, const float* input, float* output) const;
  void backward(const Pass& pass, const float* input, const float* output, float* output_gradient,
                float* input_gradient) const;

 private:
  int inputs_ = 0, outputs_ = 0;  // of one sample
  PoolShape shape_{};
  Memory winners_;  // int32 [batch_max, outputs]
};

}  // namespace rubato::train::cuda
