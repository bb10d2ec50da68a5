// train/cpu/lstm_stage.hpp - an LSTM layer: in each time step one product of inputs and hidden
// state for all four gates, and one of their gradients on the way back; one product over all time
// steps for the gradient of the weights (train/cpu/lstm_kernels.hpp).
// The interface is that of every stage: train/cpu/dense_stage.hpp.
#pragma once

#include <vector>

#include "train/cpu/gemm.hpp"
#include "train/cpu/lstm_kernels.hpp"
#include "train/layer_clock.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

class LstmStage {
 public:
  // Lifetime: of `multiplier` and `kernels`, longer than this.
  LstmStage(const LayerPlan& plan, int batch_max, Multiplier& multiplier,
            const LstmKernels& kernels = *lstm_kernels().front());
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);

  void set_clock(const StageClock& clock) { clock_ = clock; }

 private:
  void use_size(int size);

  LayerPlan plan_;
  Multiplier* multiplier_;
  const LstmKernels* kernels_;
  StageClock clock_;
  int steps_, features_, units_;  // T, F, N
  int row_;                       // F + N
  PackedWeights to_gates_;        // [F+N, 4N]
  PackedWeights to_states_;       // [4N, N]
  int size_ = 0;                  // the batch size B that all below is laid out for
  // [T+1,B,F+N]: the inputs of a time step, and the hidden state before it, at first 0. Backward
  // puts the inputs' gradient in place of the inputs.
  std::vector<float> states_;
  // [T,B,4N] i f g o; in backward their gradient before the activation
  std::vector<float> gates_;
  std::vector<float> cells_;          // [T+1,B,N], the first 0
  std::vector<float> cell_tanhs_;     // [T,B,N]
  std::vector<float> cell_gradient_;  // [B,N]
};

}  // namespace rubato::train
