// train/cuda/kernels.hpp - the arithmetic of our own kernels, written once: the GPU runs
// operator()(i) in one thread for each i, tests run it in a loop. Each is pure but for the memory
// that it names. No kernel depends on the order of its i. Compiled without fused multiply-add, all
// but exp, log, pow and tanh have the same bits everywhere.
// Sums: a kernel with `parts` adds every parts-th value in each thread; another adds the parts.
// Letters: B batch, I inputs, O outputs, C channels, H height, W width, T time steps, F features of
// a step, N hidden units, Z = F + N, P parts, n parameters.
// Shapes: row-major; activations NCHW float32; each kernel says how many i it has.
// Limits: what divides i has fewer than 2^32 of them. C++17, which older nvcc know.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "base/kernel.hpp"
#include "train/cuda/pack_kernels.hpp"

namespace rubato::train::cuda {

// What one step of training needs that changes from step to step, in the GPU's memory, so that a
// recorded step can run again.
struct StepScalars {
  float* update = nullptr;  // U [n]
  float rate = 0;
  float unbias1 = 0, unbias2 = 0;  // AdamW: 1 / (1 - beta^steps)
};

// Of one batch.
struct BatchSums {
  double loss = 0;
  std::int32_t correct = 0;
};

// ---- bias, ReLU

// y [.., channels, plane] <- y + bias, then ReLU if wanted. i: elements. NaN passes through, so
// that a broken update is seen.
struct AddBias {
  const float* bias;
  float* y;
  std::uint32_t plane, channels;
  bool relu;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const float sum = y[i] + bias[static_cast<std::uint32_t>(i) / plane % channels];
    y[i] = relu && sum < 0 ? 0.0f : sum;
  }
};

// y <- max(x, 0). i: elements.
struct ReluForward {
  const float* x;
  float* y;
  RUBATO_KERNEL void operator()(std::size_t i) const { y[i] = x[i] < 0 ? 0.0f : x[i]; }
};

// dx <- dy where y is positive, else 0; dx may be dy. i: elements.
struct ReluBackward {
  const float *y, *dy;
  float* dx;
  RUBATO_KERNEL void operator()(std::size_t i) const { dx[i] = y[i] > 0 ? dy[i] : 0.0f; }
};

// ---- sums of columns

// sums [P, columns] <- sums of every P-th row of values [rows, columns]. With y [rows, columns],
// values are first set to 0 where it is not positive: a ReLU's way back. i: P columns.
struct SumColumns {
  float* values;
  const float* y;  // or null
  float* sums;
  std::uint32_t rows, columns, parts;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::uint32_t column = static_cast<std::uint32_t>(i) % columns;
    float sum = 0;
    for (std::uint32_t row = static_cast<std::uint32_t>(i) / columns; row < rows; row += parts) {
      const std::size_t at = static_cast<std::size_t>(row) * columns + column;
      if (y && !(y[at] > 0)) values[at] = 0;
      sum += values[at];
    }
    sums[i] = sum;
  }
};

// out [columns] <- the sum of parts [P, columns]. i: columns.
struct AddColumnParts {
  const float* parts;
  float* out;
  std::uint32_t count, columns;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    float sum = 0;
    for (std::uint32_t p = 0; p < count; ++p) sum += parts[p * columns + i];
    out[i] = sum;
  }
};

// ---- pools

// The windows of a pool along one axis.
struct PoolAxis {
  std::int32_t in, out, kernel, stride, padding;  // padding: before the first

  // The places [begin, end) that a window covers.
  RUBATO_KERNEL std::int32_t begin(std::int32_t window) const {
    const std::int32_t at = window * stride - padding;
    return at < 0 ? 0 : at;
  }
  RUBATO_KERNEL std::int32_t end(std::int32_t window) const {
    const std::int32_t at = window * stride - padding + kernel;
    return at < in ? at : in;
  }
  // The windows [first, last] that cover a place: window stride <= place + padding < window stride
  // + kernel.
  RUBATO_KERNEL std::int32_t first(std::int32_t place) const {
    const std::int32_t at = place + padding;
    return at < kernel ? 0 : (at - kernel) / stride + 1;
  }
  RUBATO_KERNEL std::int32_t last(std::int32_t place) const {
    const std::int32_t at = (place + padding) / stride;
    return at < out ? at : out - 1;
  }
};

struct PoolShape {
  PoolAxis rows, columns;
};

// y and winners [B, C, out] <- the largest of each window, and its place in the plane of x: the
// first of equal ones. i: B C out.
struct MaxPoolForward {
  PoolShape shape;
  const float* x;
  float* y;
  std::int32_t* winners;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const PoolAxis &rows = shape.rows, &columns = shape.columns;
    const std::uint32_t outputs = static_cast<std::uint32_t>(rows.out * columns.out);
    const std::uint32_t plane = static_cast<std::uint32_t>(i) / outputs;
    const std::int32_t place = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) % outputs);
    const float* from =
        x + static_cast<std::size_t>(plane) * static_cast<std::size_t>(rows.in * columns.in);
    const std::int32_t h = place / columns.out, w = place % columns.out;
    std::int32_t best = -1;
    for (std::int32_t row = rows.begin(h); row < rows.end(h); ++row)
      for (std::int32_t column = columns.begin(w); column < columns.end(w); ++column) {
        const std::int32_t at = row * columns.in + column;
        if (best < 0 || from[at] > from[best]) best = at;
      }
    winners[i] = best;
    y[i] = from[best];
  }
};

// dx [B, C, in] <- the sum of dy of those windows that x won. i: B C in.
struct MaxPoolBackward {
  PoolShape shape;
  const std::int32_t* winners;
  const float* dy;
  float* dx;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const PoolAxis &rows = shape.rows, &columns = shape.columns;
    const std::uint32_t inputs = static_cast<std::uint32_t>(rows.in * columns.in);
    const std::size_t outputs = static_cast<std::size_t>(rows.out * columns.out);
    const std::size_t plane = static_cast<std::uint32_t>(i) / inputs;
    const std::int32_t place = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) % inputs);
    const std::int32_t row = place / columns.in, column = place % columns.in;
    float sum = 0;
    for (std::int32_t h = rows.first(row); h <= rows.last(row); ++h)
      for (std::int32_t w = columns.first(column); w <= columns.last(column); ++w) {
        const std::size_t at = plane * outputs + static_cast<std::size_t>(h * columns.out + w);
        if (winners[at] == place) sum += dy[at];
      }
    dx[i] = sum;
  }
};

// ---- local response norm: y_c = x_c s_c^-beta, s_c = bias + alpha sum_{|j - c| <= radius} x_j^2

struct NormShape {
  std::uint32_t channels, plane;  // plane: H W
  std::uint32_t radius;
  float bias, alpha, beta;

  // The channels of the window around i's lie at i - below plane ... i + above plane.
  struct Window {
    std::uint32_t below, above;
  };
  RUBATO_KERNEL Window window(std::size_t i) const {
    const std::uint32_t c = static_cast<std::uint32_t>(i) / plane % channels;
    const std::uint32_t above = channels - 1 - c;
    return {c < radius ? c : radius, above < radius ? above : radius};
  }
};

// y, scale <- s and power <- s^-beta. i: B C H W.
struct NormForward {
  NormShape shape;
  const float* x;
  float *y, *scale, *power;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const auto [below, above] = shape.window(i);
    const float* at = x + i - static_cast<std::size_t>(below) * shape.plane;
    float sum = 0;
    for (std::uint32_t j = 0; j <= below + above; ++j, at += shape.plane) sum += *at * *at;
    const float s = shape.bias + shape.alpha * sum;
    scale[i] = s;
    power[i] = std::pow(s, -shape.beta);
    y[i] = x[i] * power[i];
  }
};

// What element i adds to the gradients of its window, but for their x:
// common <- 2 alpha beta dy x s^-beta / s; common may be scale. i: B C H W.
struct NormCommon {
  NormShape shape;
  const float *x, *dy, *scale, *power;
  float* common;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    common[i] = 2 * shape.alpha * shape.beta * dy[i] * x[i] * power[i] / scale[i];
  }
};

// dx <- dy s^-beta - x sum_window common. i: B C H W.
struct NormBackward {
  NormShape shape;
  const float *x, *dy, *power, *common;
  float* dx;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const auto [below, above] = shape.window(i);
    const float* at = common + i - static_cast<std::size_t>(below) * shape.plane;
    float sum = 0;
    for (std::uint32_t j = 0; j <= below + above; ++j, at += shape.plane) sum += *at;
    dx[i] = dy[i] * power[i] - x[i] * sum;
  }
};

// ---- LSTM (train/reference_lstm.hpp); rows [T, B] of Z: the inputs of a step, then the hidden
// state before it

struct SequenceShape {
  std::uint32_t batch, channels, steps, width, hidden;

  RUBATO_KERNEL std::uint32_t features() const { return channels * width; }
  // Of feature f of step t of sample b.
  RUBATO_KERNEL std::size_t place(std::uint32_t b, std::uint32_t t, std::uint32_t f) const {
    const std::size_t row = static_cast<std::size_t>(b) * channels + f / width;
    return (row * steps + t) * width + f % width;
  }
};

// rows <- x [B, channels, T, width], and 0 for the hidden state before step 0. i: T B Z.
struct GatherSequence {
  SequenceShape shape;
  const float* x;
  float* rows;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::uint32_t columns = shape.features() + shape.hidden;
    const std::uint32_t row = static_cast<std::uint32_t>(i) / columns;
    const std::uint32_t f = static_cast<std::uint32_t>(i) % columns;
    const std::uint32_t t = row / shape.batch;
    if (f < shape.features()) {
      rows[i] = x[shape.place(row % shape.batch, t, f)];
    } else if (t == 0) {
      rows[i] = 0;
    }
  }
};

// dx [B, channels, T, width] <- drows [T, B, F]. i: T B F.
struct ScatterSequence {
  SequenceShape shape;
  const float* drows;
  float* dx;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::uint32_t row = static_cast<std::uint32_t>(i) / shape.features();
    dx[shape.place(row % shape.batch, row / shape.batch,
                   static_cast<std::uint32_t>(i) % shape.features())] = drows[i];
  }
};

RUBATO_KERNEL inline float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

// gates [B, 4N] <- their activations; cells [B, N] and hiddens <- the states behind the step.
// i: B N.
struct LstmForward {
  std::uint32_t hidden;
  const float* bias;  // [4N]
  float* gates;
  const float* before;  // cells before the step; null: 0
  float* cells;
  float* hiddens;             // [B] rows of N
  std::uint32_t hiddens_row;  // elements from one to the next
  RUBATO_KERNEL void operator()(std::size_t index) const {
    const std::uint32_t b = static_cast<std::uint32_t>(index) / hidden;
    const std::uint32_t n = static_cast<std::uint32_t>(index) % hidden;
    float* gate = gates + static_cast<std::size_t>(b) * 4 * hidden + n;
    const float i = sigmoid(gate[0] + bias[n]);
    const float f = sigmoid(gate[hidden] + bias[hidden + n]);
    const float g = std::tanh(gate[2 * hidden] + bias[2 * hidden + n]);
    const float o = sigmoid(gate[3 * hidden] + bias[3 * hidden + n]);
    gate[0] = i;
    gate[hidden] = f;
    gate[2 * hidden] = g;
    gate[3 * hidden] = o;
    const float c = (before ? f * before[index] : 0.0f) + i * g;
    cells[index] = c;
    hiddens[static_cast<std::size_t>(b) * hiddens_row + n] = o * std::tanh(c);
  }
};

// gates [B, 4N] <- d(loss)/d(their sums before the activation); dc [B, N] moves to the step before.
// i: B N.
struct LstmBackward {
  std::uint32_t hidden;
  float* gates;
  const float* before;  // cells before the step; null: 0
  const float* cells;
  const float* dh;
  float* dc;
  bool last;  // of the sequence: dc is 0 before
  RUBATO_KERNEL void operator()(std::size_t index) const {
    const std::uint32_t b = static_cast<std::uint32_t>(index) / hidden;
    const std::uint32_t n = static_cast<std::uint32_t>(index) % hidden;
    float* gate = gates + static_cast<std::size_t>(b) * 4 * hidden + n;
    const float i = gate[0], f = gate[hidden], g = gate[2 * hidden], o = gate[3 * hidden];
    const float tanh_c = std::tanh(cells[index]);
    const float d = (last ? 0.0f : dc[index]) + dh[index] * o * (1 - tanh_c * tanh_c);
    gate[0] = d * g * i * (1 - i);
    gate[hidden] = before ? d * before[index] * f * (1 - f) : 0.0f;
    gate[2 * hidden] = d * i * (1 - g * g);
    gate[3 * hidden] = dh[index] * tanh_c * o * (1 - o);
    dc[index] = d * f;
  }
};

// ---- losses (train/loss.hpp)

// Of one sample.
struct SampleLoss {
  float loss;
  std::int32_t correct;  // 1 or 0
};

// The place of the first of the largest; a NaN is never larger.
RUBATO_KERNEL inline std::int32_t first_largest(const float* scores, std::int32_t classes) {
  std::int32_t best = 0;
  for (std::int32_t j = 1; j < classes; ++j)
    if (scores[best] < scores[j]) best = j;
  return best;
}

// losses [B], gradient [B, classes] <- d(mean loss)/d(scores), unless that is null. i: B.
// weights [classes]: of the classes' losses; null: all are 1.
struct SoftmaxCrossEntropy {
  const float* scores;
  const std::int32_t* labels;
  float* gradient;
  SampleLoss* losses;
  std::int32_t classes;
  float scale;  // 1 / B
  const float* weights = nullptr;
  const float* sample_weights = nullptr;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const float* row = scores + i * static_cast<std::size_t>(classes);
    const std::int32_t label = labels[i];
    const float weight =
        (weights ? weights[label] : 1.0f) * (sample_weights ? sample_weights[i] : 1.0f);
    const std::int32_t best = first_largest(row, classes);
    const float largest = row[best];
    float sum = 0;
    for (std::int32_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
    if (gradient) {
      float* out = gradient + i * static_cast<std::size_t>(classes);
      const float factor = scale * weight / sum;
      for (std::int32_t j = 0; j < classes; ++j) out[j] = std::exp(row[j] - largest) * factor;
      out[label] -= scale * weight;
    }
    losses[i] = {weight * (std::log(sum) + largest - row[label]), best == label};
  }
};

// The same.
struct MultiClassHinge {
  const float* scores;
  const std::int32_t* labels;
  float* gradient;
  SampleLoss* losses;
  std::int32_t classes;
  float scale;
  const float* weights = nullptr;
  const float* sample_weights = nullptr;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const float* row = scores + i * static_cast<std::size_t>(classes);
    const std::int32_t label = labels[i];
    const float weight =
        (weights ? weights[label] : 1.0f) * (sample_weights ? sample_weights[i] : 1.0f);
    std::int32_t rival = label == 0 ? 1 : 0;
    for (std::int32_t j = rival + 1; j < classes; ++j)
      if (j != label && row[j] > row[rival]) rival = j;
    const float margin = 1 + row[rival] - row[label];
    const bool inside = !(margin <= 0);  // NaN counts as a loss, so that it is seen
    if (gradient) {
      float* out = gradient + i * static_cast<std::size_t>(classes);
      for (std::int32_t j = 0; j < classes; ++j) out[j] = 0;
      if (inside) {
        out[rival] = scale * weight;
        out[label] = -(scale * weight);
      }
    }
    losses[i] = {inside ? weight * margin : 0.0f, first_largest(row, classes) == label};
  }
};

// The same with one score and a target for each sample.
struct SquaredError {
  const float *scores, *targets;
  float* gradient;
  SampleLoss* losses;
  float scale;
  const float* sample_weights = nullptr;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const float weight = sample_weights ? sample_weights[i] : 1.0f;
    const float error = scores[i] - targets[i];
    if (gradient) gradient[i] = 2 * (scale * weight) * error;
    losses[i] = {weight * (error * error), 0};
  }
};

// sums [P] <- of every P-th sample. i: P.
struct SumLosses {
  const SampleLoss* losses;
  BatchSums* sums;
  std::uint32_t count, parts;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    BatchSums sum;
    for (std::size_t b = i; b < count; b += parts) {
      sum.loss += static_cast<double>(losses[b].loss);
      sum.correct += losses[b].correct;
    }
    sums[i] = sum;
  }
};

// out <- the sum of parts [P]. One i.
struct AddLossParts {
  const BatchSums* parts;
  BatchSums* out;
  std::uint32_t count;
  RUBATO_KERNEL void operator()(std::size_t /*i*/) const {
    BatchSums sum;
    for (std::uint32_t p = 0; p < count; ++p) {
      sum.loss += parts[p].loss;
      sum.correct += parts[p].correct;
    }
    *out = sum;
  }
};

// ---- local optimizers (train/local_optimizer.hpp); W and g are the model's, U and the moments
// those of what is trained

// Where a trained parameter lies in the model.
struct TrainedPlaces {
  const std::uint32_t* places;  // [n]; null: all parameters are trained
  RUBATO_KERNEL std::size_t operator[](std::size_t i) const { return places ? places[i] : i; }
};

// squares [P] <- of every P-th g. i: P.
struct SumSquares {
  TrainedPlaces places;
  const float* gradient;
  double* squares;
  std::size_t count, parts;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    double sum = 0;
    for (std::size_t at = i; at < count; at += parts) {
      const double g = static_cast<double>(gradient[places[at]]);
      sum += g * g;
    }
    squares[i] = sum;
  }
};

// out [P] <- of every P-th of `values`. i: P.
struct SumDoubles {
  const double* values;
  double* out;
  std::size_t count, parts;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    double sum = 0;
    for (std::size_t at = i; at < count; at += parts) sum += values[at];
    out[i] = sum;
  }
};

// clip <- min(1, c / |g|), |g|^2 the sum of squares [P]. One i.
struct ClipFactor {
  const double* squares;
  std::uint32_t count;
  double clip_norm;  // c
  float* clip;
  RUBATO_KERNEL void operator()(std::size_t /*i*/) const {
    double sum = 0;
    for (std::uint32_t p = 0; p < count; ++p) sum += squares[p];
    const double norm = std::sqrt(sum);
    *clip = static_cast<float>(clip_norm / (norm < clip_norm ? clip_norm : norm));
  }
};

// What all optimizers have. d: what the step subtracts.
struct StepTarget {
  TrainedPlaces places;
  const StepScalars* scalars;
  const float* gradient;
  const float* clip;  // or null
  float decay;        // lambda
  float* weights;     // W
  RUBATO_KERNEL float clipped(std::size_t place) const {
    return clip ? *clip * gradient[place] : gradient[place];
  }
  // W <- W - d, U <- U + d.
  RUBATO_KERNEL void move(std::size_t i, std::size_t place, float d) const {
    weights[place] -= d;
    scalars->update[i] += d;
  }
};

// i: n, of all three.
struct SgdStep {
  StepTarget target;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::size_t place = target.places[i];
    float g = target.clipped(place);
    if (target.decay != 0) g += target.decay * target.weights[place];
    target.move(i, place, target.scalars->rate * g);
  }
};

struct MomentumStep {
  StepTarget target;
  float* velocity;  // v
  float momentum;   // beta
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::size_t place = target.places[i];
    const float g = target.clipped(place) + target.decay * target.weights[place];
    const float v = momentum * velocity[i] + g;
    velocity[i] = v;
    target.move(i, place, target.scalars->rate * v);
  }
};

// As base/adam.hpp.
struct AdamwStep {
  StepTarget target;
  float *mean, *square;  // m, v
  float beta1, beta2, epsilon;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::size_t place = target.places[i];
    const StepScalars& step = *target.scalars;
    const float g = target.clipped(place);
    const float m = beta1 * mean[i] + (1 - beta1) * g;
    const float v = beta2 * square[i] + (1 - beta2) * g * g;
    mean[i] = m;
    square[i] = v;
    const float d = step.rate * (step.unbias1 * m) / (std::sqrt(step.unbias2 * v) + epsilon);
    target.move(i, place, d + step.rate * target.decay * target.weights[place]);
  }
};

// ---- parameters

// W <- arrived, or arrived - U. i: n.
struct LoadParameters {
  TrainedPlaces places;
  const float* arrived;  // [n]
  const float* update;   // U; null: W <- arrived
  float* weights;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    weights[places[i]] = update ? arrived[i] - update[i] : arrived[i];
  }
};

// broken <- 1 if a value is NaN or infinite. i: values.
struct FindBroken {
  const float* values;
  std::int32_t* broken;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    // NOLINTNEXTLINE(misc-redundant-expression): NaN and infinity are not equal to 0 then
    if (!(values[i] - values[i] == 0)) *broken = 1;
  }
};

// ---- samples that lie on the GPU (train/data/dataset.hpp)

// answers [B] <- those of the chosen samples; labels or targets, 4 bytes each. i: B.
struct GatherAnswers {
  const std::uint32_t* samples;  // [B]
  const std::uint32_t* from;
  std::uint32_t* answers;
  RUBATO_KERNEL void operator()(std::size_t i) const { answers[i] = from[samples[i]]; }
};

// inputs [B, count] <- the chosen rows of features. i: B count.
struct GatherRows {
  const std::uint32_t* samples;
  const float* features;
  float* inputs;
  std::uint32_t count;
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::uint32_t at = static_cast<std::uint32_t>(i);
    inputs[i] = features[static_cast<std::size_t>(samples[at / count]) * count + at % count];
  }
};

// The same with pixels: pixel x scale + shift of its channel.
struct GatherPixels {
  const std::uint32_t* samples;
  const std::uint8_t* pixels;
  const float *scales, *shifts;  // [C]
  float* inputs;
  std::uint32_t count, plane;  // count: C plane
  RUBATO_KERNEL void operator()(std::size_t i) const {
    const std::uint32_t at = static_cast<std::uint32_t>(i);
    const std::uint32_t place = at % count, channel = place / plane;
    const auto pixel = pixels[static_cast<std::size_t>(samples[at / count]) * count + place];
    inputs[i] = static_cast<float>(pixel) * scales[channel] + shifts[channel];
  }
};

using Kernel =
    std::variant<AddBias, ReluForward, ReluBackward, SumColumns, AddColumnParts, MaxPoolForward,
                 MaxPoolBackward, NormForward, NormCommon, NormBackward, GatherSequence,
                 ScatterSequence, LstmForward, LstmBackward, SoftmaxCrossEntropy, MultiClassHinge,
                 SquaredError, SumLosses, AddLossParts, SumSquares, SumDoubles, ClipFactor, SgdStep,
                 MomentumStep, AdamwStep, LoadParameters, FindBroken, GatherAnswers, GatherRows,
                 GatherPixels, AddUpdate, PackElements<AsFloat>, PackElements<AsF16>,
                 PackElements<AsBf16>, PackScales, PackCodes, CountDigits, SumDigits, ChooseDigit,
                 CountKept, AddKept, PackKept>;

}  // namespace rubato::train::cuda
