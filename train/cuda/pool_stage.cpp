#include "train/cuda/pool_stage.hpp"

namespace rubato::train::cuda {

Result<PoolStage> PoolStage::make(Gpu& gpu, const LayerPlan& plan, const MaxPool2d& layer,
                                  int batch_max) {
  PoolStage stage;
  stage.inputs_ = plan.input.count();
  stage.outputs_ = plan.output.count();
  stage.shape_ = {.rows = {.in = plan.input.height,
                           .out = plan.output.height,
                           .kernel = layer.kernel.height,
                           .stride = layer.stride.height,
                           .padding = layer.padding_begin.height},
                  .columns = {.in = plan.input.width,
                              .out = plan.output.width,
                              .kernel = layer.kernel.width,
                              .stride = layer.stride.width,
                              .padding = layer.padding_begin.width}};
  RUBATO_ASSIGN(stage.winners_, gpu.allocate(static_cast<std::size_t>(batch_max) * stage.outputs_ *
                                             sizeof(std::int32_t)));
  return stage;
}

void PoolStage::forward(const Pass& pass, const float* input, float* output) const {
  pass.gpu.launch(Stream::Compute, static_cast<std::size_t>(pass.size) * outputs_,
                  MaxPoolForward{shape_, input, output, winners_.as<std::int32_t>()});
}

void PoolStage::backward(const Pass& pass, const float* /*input*/, const float* /*output*/,
                         float* output_gradient, float* input_gradient) const {
  if (!input_gradient) return;
  pass.gpu.launch(
      Stream::Compute, static_cast<std::size_t>(pass.size) * inputs_,
      MaxPoolBackward{shape_, winners_.as<std::int32_t>(), output_gradient, input_gradient});
}

}  // namespace rubato::train::cuda
