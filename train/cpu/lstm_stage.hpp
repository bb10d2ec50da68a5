// train/cpu/lstm_stage.hpp - an LSTM layer: one product for the inputs of all time steps, one
// small one a step for the recurrence of all four gates, oneDNN for sigmoid and tanh.
// The interface is that of every stage: train/cpu/dense_stage.hpp.
#pragma once

#include <dnnl.hpp>
#include <vector>

#include "train/cpu/gemm.hpp"
#include "train/cpu/primitive_call.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

class LstmStage {
 public:
  LstmStage(const LayerPlan& plan, int batch_max, const dnnl::engine& engine,
            Multiplier& multiplier);
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);

 private:
  // One activation function over a contiguous piece, in place.
  struct Activation {
    PrimitiveCall call;
    dnnl::memory memory;
  };
  Activation make_activation(dnnl::algorithm algorithm, int count);
  void apply(const Activation& activation, float* values);
  void use_size(int size);

  LayerPlan plan_;
  Multiplier* multiplier_;
  int steps_, features_, hidden_;  // T, F, N
  dnnl::engine engine_;
  dnnl::stream stream_;
  int size_ = 0;  // the batch size B that all below is laid out for
  Activation sigmoid_, tanh_;
  std::vector<float> inputs_;         // [T,B,F], time-major; in backward then its gradient
  std::vector<float> gates_;          // [T,B,4N] i f g o; in backward their gradient before
                                      // the activation
  std::vector<float> cells_;          // [T+1,B,N], the first 0
  std::vector<float> cell_tanhs_;     // [T,B,N]
  std::vector<float> hiddens_;        // [T+1,B,N], the first 0
  std::vector<float> cell_gradient_;  // [B,N]
};

}  // namespace rubato::train
