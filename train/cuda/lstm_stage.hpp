// train/cuda/lstm_stage.hpp - an LSTM layer (train/cuda/stage.hpp): one product for the inputs of
// all time steps, then one product and one kernel for each step. The weights' gradient is one
// product over all steps. Letters as in train/cuda/kernels.hpp.
#pragma once

#include "train/cuda/column_sums.hpp"

namespace rubato::train::cuda {

class LstmStage {
 public:
  [[nodiscard]] static Result<LstmStage> make(Gpu& gpu, const LayerPlan& plan, int batch_max);
  void forward(const Pass& pass, const float* input, float* output) const;
  // Once after each forward().
  void backward(const Pass& pass, const float* input, const float* output, float* output_gradient,
                float* input_gradient) const;

 private:
  SequenceShape shape(int size) const;

  LayerPlan plan_;
  int steps_ = 0, features_ = 0, hidden_ = 0;
  Memory rows_;             // [T, B, Z]: inputs of a step, then the hidden state before it
  Memory gates_;            // [T, B, 4N]
  Memory cells_;            // [T, B, N], behind each step
  Memory cell_gradient_;    // [B, N]
  Memory input_gradients_;  // [T, B, F]
  ColumnSums sums_;
};

}  // namespace rubato::train::cuda
