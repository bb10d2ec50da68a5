#include "train/cuda/dense_stage.hpp"

namespace rubato::train::cuda {

Result<DenseStage> DenseStage::make(Gpu& gpu, const LayerPlan& plan, bool relu, int batch_max) {
  DenseStage stage;
  stage.plan_ = plan;
  stage.relu_ = relu;
  RUBATO_ASSIGN(stage.sums_, ColumnSums::make(gpu, batch_max, plan.output.count()));
  return stage;
}

void DenseStage::forward(const Pass& pass, const float* input, float* output) const {
  const int inputs = plan_.input.count(), outputs = plan_.output.count();
  // y [B,O] = x [B,I] weights^T [I,O]
  pass.gpu.multiply({.transpose_b = true,
                     .m = pass.size,
                     .n = outputs,
                     .k = inputs,
                     .a = input,
                     .lda = inputs,
                     .b = pass.weights + plan_.weight_offset,
                     .ldb = inputs,
                     .c = output,
                     .ldc = outputs});
  pass.gpu.launch(Stream::Compute, static_cast<std::size_t>(pass.size) * outputs,
                  AddBias{.bias = pass.weights + plan_.bias_offset,
                          .y = output,
                          .plane = 1,
                          .channels = static_cast<std::uint32_t>(outputs),
                          .relu = relu_});
}

void DenseStage::backward(const Pass& pass, const float* input, const float* output,
                          float* output_gradient, float* input_gradient) const {
  const int inputs = plan_.input.count(), outputs = plan_.output.count();
  sums_.add(pass.gpu, output_gradient, relu_ ? output : nullptr, pass.size,
            pass.gradient + plan_.bias_offset);
  // weights' gradient [O,I] = output_gradient^T [O,B] input [B,I]
  pass.gpu.multiply({.transpose_a = true,
                     .m = outputs,
                     .n = inputs,
                     .k = pass.size,
                     .a = output_gradient,
                     .lda = outputs,
                     .b = input,
                     .ldb = inputs,
                     .c = pass.gradient + plan_.weight_offset,
                     .ldc = inputs});
  if (!input_gradient) return;
  // [B,I] = output_gradient [B,O] weights [O,I]
  pass.gpu.multiply({.m = pass.size,
                     .n = inputs,
                     .k = outputs,
                     .a = output_gradient,
                     .lda = outputs,
                     .b = pass.weights + plan_.weight_offset,
                     .ldb = inputs,
                     .c = input_gradient,
                     .ldc = inputs});
}

}  // namespace rubato::train::cuda
