#include "train/cpu/lstm_stage.hpp"

#include <algorithm>
#include <cstddef>

#include "base/multiversion.hpp"
#include "train/cpu/one_dnn.hpp"

namespace rubato::train {
namespace {

using Index = std::ptrdiff_t;

// Moves features between a sample's {channels, steps, width} and rows of one time step each:
// move(sequence offset, [T,B,F] offset, count) for every contiguous run of `width` values.
template <class Move>
void for_each_run(const Shape& in, int size, Move move) {
  const Index features = static_cast<Index>(in.channels) * in.width;
  for (Index b = 0; b < size; ++b)
    for (Index c = 0; c < in.channels; ++c)
      for (Index t = 0; t < in.height; ++t) {
        move(b * in.count() + (c * in.height + t) * in.width,
             (t * size + b) * features + c * in.width, in.width);
      }
}

// Loops over [size, units]; gates are [size, 4 units], i f g o.
struct States {
  Index size, units;
};

// tanh(x) = 2 sigmoid(2x) - 1: one call of sigmoid for all gates.
RUBATO_MULTIVERSION void double_cell_gate(States s, float* gates) {
  for (Index b = 0; b < s.size; ++b) {
    float* g = gates + b * 4 * s.units + 2 * s.units;
    for (Index n = 0; n < s.units; ++n) g[n] *= 2;
  }
}

// cells and, before its activation, its tanh <- f before + i g.
RUBATO_MULTIVERSION void cells_forward(States s, float* gates, const float* before, float* cells,
                                       float* tanhs) {
  for (Index b = 0; b < s.size; ++b, gates += 4 * s.units) {
    const float* i = gates;
    const float* f = gates + s.units;
    float* g = gates + 2 * s.units;
    for (Index n = 0; n < s.units; ++n) {
      const Index at = b * s.units + n;
      g[n] = 2 * g[n] - 1;
      tanhs[at] = cells[at] = f[n] * before[at] + i[n] * g[n];
    }
  }
}

RUBATO_MULTIVERSION void hiddens_forward(States s, const float* gates, const float* tanhs,
                                         float* hiddens) {
  for (Index b = 0; b < s.size; ++b) {
    const float* o = gates + b * 4 * s.units + 3 * s.units;
    for (Index n = 0; n < s.units; ++n) hiddens[b * s.units + n] = o[n] * tanhs[b * s.units + n];
  }
}

// gates <- d(loss)/d(their sums before the activation); dc moves to the step before.
RUBATO_MULTIVERSION void gates_backward(States s, float* gates, const float* before,
                                        const float* tanhs, const float* dh, float* dc) {
  for (Index b = 0; b < s.size; ++b, gates += 4 * s.units) {
    float* is = gates;
    float* fs = gates + s.units;
    float* gs = gates + 2 * s.units;
    float* os = gates + 3 * s.units;
    for (Index n = 0; n < s.units; ++n) {
      const Index at = b * s.units + n;
      const float i = is[n], f = fs[n], g = gs[n], o = os[n], tanh = tanhs[at];
      const float d = dc[at] + dh[at] * o * (1 - tanh * tanh);
      is[n] = d * g * i * (1 - i);
      fs[n] = d * before[at] * f * (1 - f);
      gs[n] = d * i * (1 - g * g);
      os[n] = dh[at] * tanh * o * (1 - o);
      dc[at] = d * f;
    }
  }
}

// sums [columns] <- the sum of all rows.
RUBATO_MULTIVERSION void sum_rows(const float* values, Index rows, Index columns, float* sums) {
  std::fill_n(sums, columns, 0.0f);
  for (Index row = 0; row < rows; ++row, values += columns) {
    for (Index c = 0; c < columns; ++c) sums[c] += values[c];
  }
}

}  // namespace

LstmStage::LstmStage(const LayerPlan& plan, int batch_max, const dnnl::engine& engine,
                     Multiplier& multiplier)
    : plan_(plan),
      multiplier_(&multiplier),
      steps_(plan.input.height),
      features_(plan.input.channels * plan.input.width),
      hidden_(plan.output.channels),
      engine_(engine),
      stream_(engine) {
  const std::size_t rows = static_cast<std::size_t>(steps_) * batch_max;
  const std::size_t hidden = static_cast<std::size_t>(hidden_);
  const std::size_t state = batch_max * hidden;
  inputs_.resize(rows * features_);
  gates_.resize(rows * 4 * hidden);
  cells_.resize(rows * hidden + state);
  cell_tanhs_.resize(rows * hidden);
  hiddens_.resize(rows * hidden + state);
  cell_gradient_.resize(state);
  use_size(batch_max);
}

LstmStage::Activation LstmStage::make_activation(dnnl::algorithm algorithm, int count) {
  const dnnl::memory::desc desc({count}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
  const auto pd =
      describe_eltwise({engine_, {}}, dnnl::prop_kind::forward_inference, algorithm, desc);
  const dnnl::memory memory(desc, engine_, DNNL_MEMORY_NONE);
  return {{dnnl::eltwise_forward(pd), {{DNNL_ARG_SRC, memory}, {DNNL_ARG_DST, memory}}}, memory};
}

void LstmStage::apply(const Activation& activation, float* values) {
  activation.memory.set_data_handle(values);
  activation.call(stream_);
}

void LstmStage::use_size(int size) {
  if (size == size_) return;
  size_ = size;
  sigmoid_ = make_activation(dnnl::algorithm::eltwise_logistic, size * 4 * hidden_);
  tanh_ = make_activation(dnnl::algorithm::eltwise_tanh, size * hidden_);
  std::fill_n(cells_.begin(), size * hidden_, 0.0f);
  std::fill_n(hiddens_.begin(), size * hidden_, 0.0f);
}

void LstmStage::forward(const float* parameters, const float* input, float* output, int size) {
  use_size(size);
  const int rows = steps_ * size, units = hidden_, width = features_ + units;
  const float* weights = parameters + plan_.weight_offset;  // [4N, F+N]
  for_each_run(plan_.input, size, [&](Index from, Index to, Index count) {
    std::copy_n(input + from, count, inputs_.begin() + to);
  });
  for (Index row = 0; row < rows; ++row) {
    std::copy_n(parameters + plan_.bias_offset, 4 * units, gates_.begin() + row * 4 * units);
  }
  // gates [TB,4N] += inputs [TB,F] input_weights^T [F,4N]
  multiplier_->multiply_add({.transpose_b = Transpose::Yes,
                             .m = rows,
                             .n = 4 * units,
                             .k = features_,
                             .a = inputs_.data(),
                             .row_a = features_,
                             .b = weights,
                             .row_b = width},
                            gates_.data(), 4 * units);
  for (Index t = 0; t < steps_; ++t) {
    const Index state = static_cast<Index>(size) * units;
    float* gates = gates_.data() + t * 4 * state;
    if (t > 0) {  // gates [B,4N] += hidden [B,N] hidden_weights^T [N,4N]
      multiplier_->multiply_add({.transpose_b = Transpose::Yes,
                                 .m = size,
                                 .n = 4 * units,
                                 .k = units,
                                 .a = hiddens_.data() + t * state,
                                 .row_a = units,
                                 .b = weights + features_,
                                 .row_b = width},
                                gates, 4 * units);
    }
    const States states{size, units};
    double_cell_gate(states, gates);
    apply(sigmoid_, gates);
    float* tanhs = cell_tanhs_.data() + t * state;
    cells_forward(states, gates, cells_.data() + t * state, cells_.data() + (t + 1) * state, tanhs);
    apply(tanh_, tanhs);
    hiddens_forward(states, gates, tanhs, hiddens_.data() + (t + 1) * state);
  }
  std::copy_n(hiddens_.data() + static_cast<Index>(rows) * units, static_cast<Index>(size) * units,
              output);
}

void LstmStage::backward(const float* parameters, const float*, const float*,
                         float* output_gradient, float* input_gradient, float* gradient, int size) {
  const int rows = steps_ * size, units = hidden_, width = features_ + units;
  const Index state = static_cast<Index>(size) * units;
  const float* weights = parameters + plan_.weight_offset;
  float* weight_gradient = gradient + plan_.weight_offset;
  float* bias_gradient = gradient + plan_.bias_offset;
  std::fill_n(cell_gradient_.begin(), state, 0.0f);
  for (int t = steps_ - 1; t >= 0; --t) {
    gates_backward({size, units}, gates_.data() + t * 4 * state, cells_.data() + t * state,
                   cell_tanhs_.data() + t * state, output_gradient, cell_gradient_.data());
    if (t > 0) {  // the hidden state's gradient [B,N] = gates' [B,4N] hidden_weights [4N,N]
      multiplier_->multiply({.m = size,
                             .n = units,
                             .k = 4 * units,
                             .a = gates_.data() + t * 4 * state,
                             .row_a = 4 * units,
                             .b = weights + features_,
                             .row_b = width},
                            output_gradient, units);
    }
  }
  sum_rows(gates_.data(), rows, 4 * units, bias_gradient);
  // input_weights' gradient [4N,F] = gates'^T [4N,TB] inputs [TB,F]; then the same for hiddens
  Product to_weights{.transpose_a = Transpose::Yes,
                     .m = 4 * units,
                     .n = features_,
                     .k = rows,
                     .a = gates_.data(),
                     .row_a = 4 * units,
                     .b = inputs_.data(),
                     .row_b = features_};
  multiplier_->multiply(to_weights, weight_gradient, width);
  to_weights.n = to_weights.row_b = units;
  to_weights.b = hiddens_.data();
  multiplier_->multiply(to_weights, weight_gradient + features_, width);
  if (input_gradient) {  // [TB,F] = gates' [TB,4N] input_weights [4N,F]
    multiplier_->multiply({.m = rows,
                           .n = features_,
                           .k = 4 * units,
                           .a = gates_.data(),
                           .row_a = 4 * units,
                           .b = weights,
                           .row_b = width},
                          inputs_.data(), features_);
    for_each_run(plan_.input, size, [&](Index to, Index from, Index count) {
      std::copy_n(inputs_.begin() + from, count, input_gradient + to);
    });
  }
}

}  // namespace rubato::train
