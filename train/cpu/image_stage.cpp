#include "train/cpu/image_stage.hpp"

#include <utility>

namespace rubato::train {

ImageStage::ImageStage(ImageLayers image, int batch_max, const dnnl::engine& engine)
    : image_(std::move(image)),
      engine_(engine),
      stream_(engine),
      size_(batch_max),
      plan_(image_, batch_max, engine) {}

void ImageStage::forward(const float* parameters, const float* input, float* output, int size) {
  if (size != size_) {
    plan_ = ImagePlan(image_, size, engine_);
    size_ = size;
  }
  plan_.forward(stream_, parameters, input, output, clock_);
}

void ImageStage::backward(const float*, const float*, const float*, float* output_gradient,
                          float* input_gradient, float* gradient, int) {
  plan_.backward(stream_, output_gradient, input_gradient, gradient, clock_);
}

}  // namespace rubato::train
