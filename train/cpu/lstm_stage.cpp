#include "train/cpu/lstm_stage.hpp"

#include <algorithm>
#include <cstddef>

namespace rubato::train {
namespace {

using Index = std::ptrdiff_t;

// Moves features between a sample's {channels, steps, width} and rows of one time step each, `row`
// floats apart: move(sequence offset, [T,B,row] offset, count) for every contiguous run of `width`
// values.
template <class Move>
void for_each_run(const Shape& in, int size, Index row, Move move) {
  for (Index b = 0; b < size; ++b)
    for (Index c = 0; c < in.channels; ++c)
      for (Index t = 0; t < in.height; ++t) {
        move(b * in.count() + (c * in.height + t) * in.width, (t * size + b) * row + c * in.width,
             in.width);
      }
}

}  // namespace

LstmStage::LstmStage(const LayerPlan& plan, int batch_max, Multiplier& multiplier,
                     const LstmKernels& kernels)
    : plan_(plan),
      multiplier_(&multiplier),
      kernels_(&kernels),
      steps_(plan.input.height),
      features_(plan.input.channels * plan.input.width),
      units_(plan.output.channels),
      row_(features_ + units_),
      to_gates_(row_, 4 * units_, kernels.panel),
      to_states_(4 * units_, units_, kernels.panel) {
  const std::size_t rows = static_cast<std::size_t>(steps_) * batch_max;
  const std::size_t units = static_cast<std::size_t>(units_), batch = batch_max;
  states_.resize((rows + batch) * row_);
  gates_.resize(rows * 4 * units);
  cells_.resize((rows + batch) * units);
  cell_tanhs_.resize(rows * units);
  cell_gradient_.resize(batch * units);
}

void LstmStage::use_size(int size) {
  if (size == size_) return;
  size_ = size;
  std::fill_n(cells_.begin(), size * units_, 0.0f);
  std::fill_n(states_.begin(), size * row_, 0.0f);
}

void LstmStage::forward(const float* parameters, const float* input, float* output, int size) {
  use_size(size);
  for_each_run(plan_.input, size, row_, [&](Index from, Index to, Index count) {
    std::copy_n(input + from, count, states_.begin() + to);
  });
  // [F+N,4N], the transpose of the parameters' [4N,F+N]
  to_gates_.pack({parameters + plan_.weight_offset, 1, row_}, parameters + plan_.bias_offset);
  const Index state = static_cast<Index>(size) * units_, rows = static_cast<Index>(size) * row_;
  float* hiddens = states_.data() + features_;
  for (Index t = 0; t < steps_; ++t) {
    float* gates = gates_.data() + t * 4 * state;
    kernels_->multiply(to_gates_, size, states_.data() + t * rows, row_, gates, 4 * units_);
    hiddens += rows;
    kernels_->forward({size, units_}, gates, cells_.data() + t * state,
                      cells_.data() + (t + 1) * state, cell_tanhs_.data() + t * state, hiddens,
                      row_);
  }
  for (Index b = 0; b < size; ++b) std::copy_n(hiddens + b * row_, units_, output + b * units_);
  clock_.lap(0);
}

void LstmStage::backward(const float* parameters, const float*, const float*,
                         float* output_gradient, float* input_gradient, float* gradient, int size) {
  const int rows = steps_ * size;
  const Index state = static_cast<Index>(size) * units_;
  const float* weights = parameters + plan_.weight_offset;
  float* weight_gradient = gradient + plan_.weight_offset;
  float* bias_gradient = gradient + plan_.bias_offset;
  to_states_.pack({weights + features_, row_, 1}, nullptr);
  std::fill_n(cell_gradient_.begin(), state, 0.0f);
  std::fill_n(bias_gradient, plan_.bias_count, 0.0f);
  for (Index t = steps_ - 1; t >= 0; --t) {
    float* gates = gates_.data() + t * 4 * state;
    kernels_->backward({size, units_}, gates, cells_.data() + t * state,
                       cell_tanhs_.data() + t * state, output_gradient, cell_gradient_.data(),
                       bias_gradient);
    if (t > 0) kernels_->multiply(to_states_, size, gates, 4 * units_, output_gradient, units_);
  }
  // input_weights' gradient [4N,F] = gates'^T [4N,TB] inputs [TB,F]; then the same for hiddens
  Product to_weights{.transpose_a = Transpose::Yes,
                     .m = 4 * units_,
                     .n = features_,
                     .k = rows,
                     .a = gates_.data(),
                     .row_a = 4 * units_,
                     .b = states_.data(),
                     .row_b = row_};
  multiplier_->multiply(to_weights, weight_gradient, row_);
  to_weights.n = units_;
  to_weights.b += features_;
  multiplier_->multiply(to_weights, weight_gradient + features_, row_);
  if (input_gradient) {  // [TB,F] = gates' [TB,4N] input_weights [4N,F]
    multiplier_->multiply({.m = rows,
                           .n = features_,
                           .k = 4 * units_,
                           .a = gates_.data(),
                           .row_a = 4 * units_,
                           .b = weights,
                           .row_b = row_},
                          states_.data(), row_);
    for_each_run(plan_.input, size, row_, [&](Index to, Index from, Index count) {
      std::copy_n(states_.begin() + from, count, input_gradient + to);
    });
  }
  clock_.lap(0);
}

}  // namespace rubato::train
