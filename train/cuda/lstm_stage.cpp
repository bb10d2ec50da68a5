#include "train/cuda/lstm_stage.hpp"

namespace rubato::train::cuda {

Result<LstmStage> LstmStage::make(Gpu& gpu, const LayerPlan& plan, int batch_max) {
  LstmStage stage;
  stage.plan_ = plan;
  stage.steps_ = plan.input.height;
  stage.features_ = plan.input.channels * plan.input.width;
  stage.hidden_ = plan.output.channels;
  const std::size_t rows = static_cast<std::size_t>(stage.steps_) * batch_max;
  const auto hidden = static_cast<std::size_t>(stage.hidden_);
  const auto features = static_cast<std::size_t>(stage.features_);
  RUBATO_ASSIGN(stage.rows_, allocate_floats(gpu, rows * (features + hidden)));
  RUBATO_ASSIGN(stage.gates_, allocate_floats(gpu, rows * 4 * hidden));
  RUBATO_ASSIGN(stage.cells_, allocate_floats(gpu, rows * hidden));
  RUBATO_ASSIGN(stage.cell_gradient_, allocate_floats(gpu, batch_max * hidden));
  RUBATO_ASSIGN(stage.input_gradients_, allocate_floats(gpu, rows * features));
  RUBATO_ASSIGN(stage.sums_, ColumnSums::make(gpu, stage.steps_ * batch_max, 4 * stage.hidden_));
  return stage;
}

SequenceShape LstmStage::shape(int size) const {
  return {.batch = static_cast<std::uint32_t>(size),
          .channels = static_cast<std::uint32_t>(plan_.input.channels),
          .steps = static_cast<std::uint32_t>(steps_),
          .width = static_cast<std::uint32_t>(plan_.input.width),
          .hidden = static_cast<std::uint32_t>(hidden_)};
}

void LstmStage::forward(const Pass& pass, const float* input, float* output) const {
  const int width = features_ + hidden_;  // Z
  const std::size_t step_rows = static_cast<std::size_t>(pass.size) * width;
  const std::size_t states = static_cast<std::size_t>(pass.size) * hidden_;
  const float* const weights = pass.weights + plan_.weight_offset;  // [4N, Z]
  float* const rows = rows_.as<float>();
  pass.gpu.launch(Stream::Compute, steps_ * step_rows,
                  GatherSequence{shape(pass.size), input, rows});
  // gates [TB,4N] = inputs [TB,F] input_weights^T [F,4N]
  pass.gpu.multiply({.transpose_b = true,
                     .m = steps_ * pass.size,
                     .n = 4 * hidden_,
                     .k = features_,
                     .a = rows,
                     .lda = width,
                     .b = weights,
                     .ldb = width,
                     .c = gates_.as<float>(),
                     .ldc = 4 * hidden_});
  for (int t = 0; t < steps_; ++t) {
    float* const gates = gates_.as<float>() + t * 4 * states;
    float* const cells = cells_.as<float>() + t * states;
    if (t > 0) {  // gates [B,4N] += hidden [B,N] hidden_weights^T [N,4N]
      pass.gpu.multiply({.transpose_b = true,
                         .m = pass.size,
                         .n = 4 * hidden_,
                         .k = hidden_,
                         .a = rows + t * step_rows + features_,
                         .lda = width,
                         .b = weights + features_,
                         .ldb = width,
                         .beta = 1,
                         .c = gates,
                         .ldc = 4 * hidden_});
    }
    const bool last = t == steps_ - 1;
    pass.gpu.launch(Stream::Compute, states,
                    LstmForward{.hidden = static_cast<std::uint32_t>(hidden_),
                                .bias = pass.weights + plan_.bias_offset,
                                .gates = gates,
                                .before = t > 0 ? cells - states : nullptr,
                                .cells = cells,
                                .hiddens = last ? output : rows + (t + 1) * step_rows + features_,
                                .hiddens_row = static_cast<std::uint32_t>(last ? hidden_ : width)});
  }
}

void LstmStage::backward(const Pass& pass, const float* /*input*/, const float* /*output*/,
                         float* output_gradient, float* input_gradient) const {
  const int width = features_ + hidden_;
  const std::size_t states = static_cast<std::size_t>(pass.size) * hidden_;
  const float* const weights = pass.weights + plan_.weight_offset;
  for (int t = steps_ - 1; t >= 0; --t) {
    float* const gates = gates_.as<float>() + t * 4 * states;
    const float* const cells = cells_.as<float>() + t * states;
    pass.gpu.launch(Stream::Compute, states,
                    LstmBackward{.hidden = static_cast<std::uint32_t>(hidden_),
                                 .gates = gates,
                                 .before = t > 0 ? cells - states : nullptr,
                                 .cells = cells,
                                 .dh = output_gradient,
                                 .dc = cell_gradient_.as<float>(),
                                 .last = t == steps_ - 1});
    if (t > 0) {  // the hidden state's gradient [B,N] = gates' [B,4N] hidden_weights [4N,N]
      pass.gpu.multiply({.m = pass.size,
                         .n = hidden_,
                         .k = 4 * hidden_,
                         .a = gates,
                         .lda = 4 * hidden_,
                         .b = weights + features_,
                         .ldb = width,
                         .c = output_gradient,
                         .ldc = hidden_});
    }
  }
  const int rows = steps_ * pass.size;
  sums_.add(pass.gpu, gates_.as<float>(), nullptr, rows, pass.gradient + plan_.bias_offset);
  // weights' gradient [4N,Z] = gates'^T [4N,TB] rows [TB,Z]
  pass.gpu.multiply({.transpose_a = true,
                     .m = 4 * hidden_,
                     .n = width,
                     .k = rows,
                     .a = gates_.as<float>(),
                     .lda = 4 * hidden_,
                     .b = rows_.as<float>(),
                     .ldb = width,
                     .c = pass.gradient + plan_.weight_offset,
                     .ldc = width});
  if (!input_gradient) return;
  // [TB,F] = gates' [TB,4N] input_weights [4N,F]
  pass.gpu.multiply({.m = rows,
                     .n = features_,
                     .k = 4 * hidden_,
                     .a = gates_.as<float>(),
                     .lda = 4 * hidden_,
                     .b = weights,
                     .ldb = width,
                     .c = input_gradients_.as<float>(),
                     .ldc = features_});
  pass.gpu.launch(Stream::Compute, static_cast<std::size_t>(rows) * features_,
                  ScatterSequence{shape(pass.size), input_gradients_.as<float>(), input_gradient});
}

}  // namespace rubato::train::cuda
