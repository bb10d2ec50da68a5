// train/cpu/image_stage.hpp - a run of image layers (conv2d, max-pool, local response norm, ReLU)
// on oneDNN. The interface is that of every stage: train/cpu/dense_stage.hpp.
#pragma once

#include <dnnl.hpp>

#include "train/cpu/image_plan.hpp"

namespace rubato::train {

class ImageStage {
 public:
  ImageStage(ImageLayers image, int batch_max, const dnnl::engine& engine);
  void forward(const float* parameters, const float* input, float* output, int size);
  void backward(const float* parameters, const float* input, const float* output,
                float* output_gradient, float* input_gradient, float* gradient, int size);
  void set_clock(const StageClock& clock) { clock_ = clock; }

 private:
  ImageLayers image_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  StageClock clock_;
  int size_;        // the batch size of plan_
  ImagePlan plan_;  // made anew when a batch of another size comes
};

}  // namespace rubato::train
