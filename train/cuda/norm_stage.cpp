#include "train/cuda/norm_stage.hpp"

namespace rubato::train::cuda {

Result<NormStage> NormStage::make(Gpu& gpu, const LayerPlan& plan, const LocalResponseNorm& layer,
                                  int batch_max) {
  NormStage stage;
  stage.count_ = plan.input.count();
  stage.shape_ = {.channels = static_cast<std::uint32_t>(plan.input.channels),
                  .plane = static_cast<std::uint32_t>(plan.input.height * plan.input.width),
                  .radius = static_cast<std::uint32_t>(layer.radius),
                  .bias = layer.bias,
                  .alpha = layer.alpha,
                  .beta = layer.beta};
  const std::size_t count = static_cast<std::size_t>(batch_max) * stage.count_;
  RUBATO_ASSIGN(stage.scale_, allocate_floats(gpu, count));
  RUBATO_ASSIGN(stage.power_, allocate_floats(gpu, count));
  return stage;
}

void NormStage::forward(const Pass& pass, const float* input, float* output) const {
  pass.gpu.launch(Stream::Compute, static_cast<std::size_t>(pass.size) * count_,
                  NormForward{shape_, input, output, scale_.as<float>(), power_.as<float>()});
}

void NormStage::backward(const Pass& pass, const float* input, const float* /*output*/,
                         float* output_gradient, float* input_gradient) const {
  if (!input_gradient) return;
  const std::size_t count = static_cast<std::size_t>(pass.size) * count_;
  float* const scale = scale_.as<float>();  // then what its elements add to others
  pass.gpu.launch(Stream::Compute, count,
                  NormCommon{shape_, input, output_gradient, scale, power_.as<float>(), scale});
  pass.gpu.launch(
      Stream::Compute, count,
      NormBackward{shape_, input, output_gradient, power_.as<float>(), scale, input_gradient});
}

}  // namespace rubato::train::cuda
