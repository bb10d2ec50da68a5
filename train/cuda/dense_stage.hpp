// train/cuda/dense_stage.hpp - a dense layer and the ReLU behind it, if any (train/cuda/stage.hpp).
#pragma once

#include "train/cuda/column_sums.hpp"

namespace rubato::train::cuda {

class DenseStage {
 public:
  [[nodiscard]] static Result<DenseStage> make(Gpu& gpu, const LayerPlan& plan, bool relu,
                                               int batch_max);
  void forward(const Pass& pass, const float* input, float* output) const;
  void backward(const Pass& pass, const float* input, const float* output, float* output_gradient,
                float* input_gradient) const;

 private:
  LayerPlan plan_;
  bool relu_ = false;
  ColumnSums sums_;
};

}  // namespace rubato::train::cuda
