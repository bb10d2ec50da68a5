// train/cuda/norm_stage.hpp - local response norm (train/cuda/stage.hpp).
#pragma once

#include "train/cuda/stage.hpp"

namespace rubato::train::cuda {

class NormStage {
 public:
  [[nodiscard]] static Result<NormStage> make(Gpu& gpu, const LayerPlan& plan,
                                              const LocalResponseNorm& layer, int batch_max);
  void forward(const Pass& pass, const float* input, float* output) const;
  // Once after each forward().
  void backward(const Pass& pass, const float* input, const float* output, float* output_gradient,
                float* input_gradient) const;

 private:
  int count_ = 0;  // of one sample
  NormShape shape_{};
  Memory scale_, power_;  // [batch_max, count]: s, and s^-beta
};

}  // namespace rubato::train::cuda
