// train/cpu/dense_stage.hpp - a dense layer and the ReLU behind it, if any.
// A stage is one part of the CPU device's pipeline; all stages have the same two functions:
//   forward:  output <- f(input)
//   backward: given output_gradient (which it may overwrite), overwrites input_gradient, unless
//             that is null, and this stage's part of `gradient`.
// `parameters` and `gradient` are the model's whole flat vectors; activations are [size, count]
// row-major in NCHW; size <= the batch_max of construction. set_clock(): what each layer takes is
// noted there from now on. Lifetime: `multiplier` outlives the stage. Threads: one owner.
#pragma once

#include "train/cpu/gemm.hpp"
#include "train/layer_clock.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

// The products of a dense layer: inputs x [samples, inputs], weights w [outputs, inputs], gradients
// dy [samples, outputs].
struct DenseProducts {
  int samples = 0, outputs = 0, inputs = 0;

  Product forward(const float* x, const float* w) const {  // [samples, outputs]
    return {.transpose_b = Transpose::Yes,
            .m = samples,
            .n = outputs,
            .k = inputs,
            .a = x,
            .row_a = inputs,
            .b = w,
            .row_b = inputs};
  }
  Product weights(const float* dy, const float* x) const {  // their gradient [outputs, inputs]
    return {.transpose_a = Transpose::Yes,
            .m = outputs,
            .n = inputs,
            .k = samples,
            .a = dy,
            .row_a = outputs,
            .b = x,
            .row_b = inputs};
  }
  Product back(const float* dy, const float* w) const {  // the inputs' gradient [samples, inputs]
    return {.m = samples,
            .n = inputs,
            .k = outputs,
            .a = dy,
            .row_a = outputs,
            .b = w,
            .row_b = inputs};
  }
};

class DenseStage {
 public:
  DenseStage(const LayerPlan& plan, bool relu, Multiplier& multiplier)
      : plan_(plan), relu_(relu), multiplier_(&multiplier) {}
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);

  void set_clock(const StageClock& clock) { clock_ = clock; }

 private:
  DenseProducts products(int size) const {
    return {size, plan_.output.count(), plan_.input.count()};
  }

  LayerPlan plan_;
  bool relu_;
  StageClock clock_;
  Multiplier* multiplier_;
};

}  // namespace rubato::train
