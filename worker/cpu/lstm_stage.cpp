#include "worker/cpu/lstm_stage.hpp"

#include <cblas.h>

#include <algorithm>
#include <cstddef>

namespace rubato::worker {
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

}  // namespace

LstmStage::LstmStage(const LayerPlan& plan, int batch_max, const dnnl::engine& engine)
    : plan_(plan),
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
  const dnnl::eltwise_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, algorithm, desc}, engine_);
  return {dnnl::eltwise_forward(pd), dnnl::memory(desc, engine_, DNNL_MEMORY_NONE)};
}

void LstmStage::apply(const Activation& activation, float* values) {
  activation.memory.set_data_handle(values);
  activation.primitive.execute(
      stream_, {{DNNL_ARG_SRC, activation.memory}, {DNNL_ARG_DST, activation.memory}});
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
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, 4 * units, features_, 1.0f,
              inputs_.data(), features_, weights, width, 1.0f, gates_.data(), 4 * units);
  for (Index t = 0; t < steps_; ++t) {
    const Index state = static_cast<Index>(size) * units;
    float* gates = gates_.data() + t * 4 * state;
    if (t > 0) {  // gates [B,4N] += hidden [B,N] hidden_weights^T [N,4N]
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size, 4 * units, units, 1.0f,
                  hiddens_.data() + t * state, units, weights + features_, width, 1.0f, gates,
                  4 * units);
    }
    for (Index b = 0; b < size; ++b) {  // tanh(x) = 2 sigmoid(2x) - 1: one call for all gates
      float* g = gates + b * 4 * units + 2 * units;
      for (Index n = 0; n < units; ++n) g[n] *= 2;
    }
    apply(sigmoid_, gates);
    const float* before = cells_.data() + t * state;
    float* cells = cells_.data() + (t + 1) * state;
    float* tanhs = cell_tanhs_.data() + t * state;
    for (Index b = 0; b < size; ++b) {
      float* i = gates + b * 4 * units;
      for (Index n = 0; n < units; ++n) {
        float& g = i[2 * units + n];
        g = 2 * g - 1;
        cells[b * units + n] = i[units + n] * before[b * units + n] + i[n] * g;
      }
    }
    std::copy_n(cells, state, tanhs);
    apply(tanh_, tanhs);
    float* hiddens = hiddens_.data() + (t + 1) * state;
    for (Index b = 0; b < size; ++b) {
      const float* o = gates + b * 4 * units + 3 * units;
      for (Index n = 0; n < units; ++n) hiddens[b * units + n] = o[n] * tanhs[b * units + n];
    }
  }
  std::copy_n(hiddens_.data() + static_cast<Index>(rows) * units, static_cast<Index>(size) * units,
              output);
}

// gates of step t <- d(loss)/d(their sums before the activation); cell_gradient_ moves to t - 1.
void LstmStage::gate_gradients(int t, const float* hidden_gradient) {
  const Index units = hidden_, state = static_cast<Index>(size_) * units;
  for (Index b = 0; b < size_; ++b) {
    float* gates = gates_.data() + t * 4 * state + b * 4 * units;
    const float* before = cells_.data() + t * state + b * units;
    const float* tanhs = cell_tanhs_.data() + t * state + b * units;
    const float* dh = hidden_gradient + b * units;
    float* dc = cell_gradient_.data() + b * units;
    for (Index n = 0; n < units; ++n) {
      const float i = gates[n], f = gates[units + n], g = gates[2 * units + n],
                  o = gates[3 * units + n];
      const float d = dc[n] + dh[n] * o * (1 - tanhs[n] * tanhs[n]);
      gates[n] = d * g * i * (1 - i);
      gates[units + n] = d * before[n] * f * (1 - f);
      gates[2 * units + n] = d * i * (1 - g * g);
      gates[3 * units + n] = dh[n] * tanhs[n] * o * (1 - o);
      dc[n] = d * f;
    }
  }
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
    gate_gradients(t, output_gradient);
    if (t > 0) {  // the hidden state's gradient [B,N] = gates' [B,4N] hidden_weights [4N,N]
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, units, 4 * units, 1.0f,
                  gates_.data() + t * 4 * state, 4 * units, weights + features_, width, 0.0f,
                  output_gradient, units);
    }
  }
  std::fill_n(bias_gradient, 4 * units, 0.0f);
  for (Index row = 0; row < rows; ++row) {
    const float* d = gates_.data() + row * 4 * units;
    for (Index r = 0; r < 4 * units; ++r) bias_gradient[r] += d[r];
  }
  // input_weights' gradient [4N,F] = gates'^T [4N,TB] inputs [TB,F]; then the same for hiddens
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, 4 * units, features_, rows, 1.0f,
              gates_.data(), 4 * units, inputs_.data(), features_, 0.0f, weight_gradient, width);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, 4 * units, units, rows, 1.0f, gates_.data(),
              4 * units, hiddens_.data(), units, 0.0f, weight_gradient + features_, width);
  if (input_gradient) {  // [TB,F] = gates' [TB,4N] input_weights [4N,F]
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, features_, 4 * units, 1.0f,
                gates_.data(), 4 * units, weights, width, 0.0f, inputs_.data(), features_);
    for_each_run(plan_.input, size, [&](Index to, Index from, Index count) {
      std::copy_n(inputs_.begin() + from, count, input_gradient + to);
    });
  }
}

}  // namespace rubato::worker
