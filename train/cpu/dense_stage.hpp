// train/cpu/dense_stage.hpp - a dense layer and the ReLU behind it, if any.
// A stage is one part of the CPU device's pipeline; all stages have the same two functions:
//   forward:  output <- f(input)
//   backward: given output_gradient (which it may overwrite), overwrites input_gradient, unless
//             that is null, and this stage's part of `gradient`.
// `parameters` and `gradient` are the model's whole flat vectors; activations are [size, count]
// row-major in NCHW; size <= the batch_max of construction. set_clock(): what each layer takes is
// noted there from now on. Lifetime: `multiplier` outlives the
// stage. Threads: one owner.
#pragma once

#include "train/cpu/gemm.hpp"
#include "train/layer_clock.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

class DenseStage {
 public:
  DenseStage(const LayerPlan& plan, bool relu, Multiplier& multiplier)
      : plan_(plan), relu_(relu), multiplier_(&multiplier) {}
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);

  void set_clock(const StageClock& clock) { clock_ = clock; }

 private:
  LayerPlan plan_;
  bool relu_;
  StageClock clock_;
  Multiplier* multiplier_;
};

}  // namespace rubato::train
