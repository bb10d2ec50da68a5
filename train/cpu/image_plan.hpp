// train/cpu/image_plan.hpp - a run of convolution, pooling, normalisation and ReLU layers for one
// batch size, laid out as a list of calls, most of them to oneDNN. Between its layers activations
// stay in the blocked layout that oneDNN likes best; only the outside sees NCHW. A ReLU behind a
// convolution is fused into it.
// Scratch memory is kept here, never in oneDNN's thread-local one, so that any thread may run it.
// Threads: one owner at a time.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <vector>

#include "train/layer_clock.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

struct ImageLayers {
  std::vector<Layer> layers;
  std::vector<LayerPlan> plans;  // one a layer
  bool first = false;            // of the model: nobody wants the gradient of its input
};

class ImagePlan {
 public:
  ImagePlan() = default;
  ImagePlan(const ImageLayers& image, int size, const dnnl::engine& engine);

  // As every stage: train/cpu/dense_stage.hpp.
  void forward(dnnl::stream& stream, const float* parameters, const float* input, float* output,
               const StageClock& clock);
  // Requires: forward() on the same arguments before.
  void backward(dnnl::stream& stream, float* output_gradient, float* input_gradient,
                float* gradient, const StageClock& clock);

 private:
  friend class ImagePlanBuilder;
  // `layer`: whose it is; the number of layers: a change of layout for the outside.
  struct Call {
    std::function<void(dnnl::stream&)> run;
    std::size_t layer = 0;
  };
  // A convolution's parameters, in the model's own layout.
  struct Parameters {
    std::uint64_t weight_offset = 0;
    std::uint64_t bias_offset = 0;
    dnnl::memory weights, bias, weight_gradient, bias_gradient;
  };

  dnnl::memory input_, output_, output_gradient_, input_gradient_;  // NCHW, owned by the caller
  std::vector<Parameters> parameters_;
  std::size_t layers_ = 0;
  std::vector<Call> forward_, backward_;

  void run(const std::vector<Call>& calls, dnnl::stream& stream, const StageClock& clock) const;
  dnnl::memory scratchpad_;  // of every call
};

}  // namespace rubato::train
