#include "train/cpu/lane_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/multiversion.hpp"

namespace rubato::train {
namespace {

using Index = std::ptrdiff_t;
// The compiler's vectors: one instruction an operation, on registers of 64 bytes.
using Vector = float __attribute__((vector_size(64), may_alias));
using Numbers = std::int32_t __attribute__((vector_size(64)));
using Bytes = std::uint8_t __attribute__((vector_size(16), may_alias));

const Vector* vectors(const Lanes* lanes) {
  return reinterpret_cast<const Vector*>(lanes);
}
Vector* vectors(Lanes* lanes) {
  return reinterpret_cast<Vector*>(lanes);
}

struct Walk {  // of a convolution
  Index inputs, width;
  Index outputs, out_height, out_width;
  Index kernel;

  Walk(const LayerPlan& plan, int side)
      : inputs(plan.input.channels),
        width(plan.input.width),
        outputs(plan.output.channels),
        out_height(plan.output.height),
        out_width(plan.output.width),
        kernel(side) {}
};

// Sums stay in registers, of which there are 32: so many channels at two positions, or so many by
// so many products.
constexpr int kTile = 13, kGradientTile = 5;

// Calls use(first, size) for `count` channels in tiles of nearly equal size, `size_max` at most.
template <class Use>
void for_each_tile(Index count, Index size_max, Use use) {
  const Index tiles = (count + size_max - 1) / size_max;
  for (Index i = 0; i < tiles; ++i) {
    const Index first = count * i / tiles;
    use(first, count * (i + 1) / tiles - first);
  }
}

// Adds to sums [P, T], of T channels at P positions beside each other: x [count], `step` further at
// the next position, times weights [count, T].
template <int T, int P>
RUBATO_AVX512 inline void add_products(Vector* sums, const Vector* x, Index step, Index count,
                                       const float* weights) {
  for (Index i = 0; i < count; ++i, weights += T) {
    for (int t = 0; t < T; ++t)
      for (int p = 0; p < P; ++p) sums[p * T + t] += x[i + p * step] * weights[t];
  }
}

template <int T, int P>
RUBATO_AVX512 inline void store(const Vector* sums, Vector* y, Index step) {
  for (int p = 0; p < P; ++p)
    for (int t = 0; t < T; ++t) y[p * step + t] = sums[p * T + t];
}

// y of T channels at P positions; x: the first element of the first window.
template <int T, int P>
RUBATO_AVX512 inline void convolve(const Walk& k, const Vector* x, const float* weights,
                                   const float* biases, Vector* y) {
  Vector sums[P * T];
  for (int p = 0; p < P; ++p)
    for (int t = 0; t < T; ++t) sums[p * T + t] = Vector{} + biases[t];
  const Index count = k.kernel * k.inputs;  // a row of the window lies in one piece
  for (Index row = 0; row < k.kernel; ++row) {
    add_products<T, P>(sums, x + row * k.width * k.inputs, k.inputs, count,
                       weights + row * count * T);
  }
  store<T, P>(sums, y, k.outputs);
}

// weights [kernel, kernel, inputs, T]
template <int T>
RUBATO_AVX512 void forward_tile(const Walk& k, const Vector* x, const float* weights,
                                const float* biases, Vector* y) {
  for (Index row = 0; row < k.out_height; ++row) {
    Index column = 0;
    for (; column + 1 < k.out_width; column += 2) {
      const Index at = row * k.out_width + column;
      convolve<T, 2>(k, x + (row * k.width + column) * k.inputs, weights, biases,
                     y + at * k.outputs);
    }
    if (column < k.out_width) {
      const Index at = row * k.out_width + column;
      convolve<T, 1>(k, x + (row * k.width + column) * k.inputs, weights, biases,
                     y + at * k.outputs);
    }
  }
}

// dx of T channels at two positions, the first in this row and column. A window at (r, c) covers
// it with its tap (row - r, column - c), if it has that one.
template <int T>
RUBATO_AVX512 void spread_pair(const Walk& k, const Vector* dy, const float* weights, Index row,
                               Index column, Vector* dx) {
  Vector sums[2 * T] = {};
  const Index outputs = k.outputs, beyond = column + 1 - k.out_width;
  for (Index r = std::max<Index>(0, row - k.kernel + 1); r <= std::min(row, k.out_height - 1);
       ++r) {
    const Vector* from = dy + (r * k.out_width + column) * outputs;
    const float* w = weights + (row - r) * k.kernel * outputs * T;
    if (beyond >= 0 && beyond < k.kernel) {  // the last window has it for the left one only
      add_products<T, 1>(sums, from - beyond * outputs, 0, outputs, w + beyond * outputs * T);
    }
    for (Index tap = std::max<Index>(0, beyond + 1); tap < std::min(k.kernel, column + 1); ++tap) {
      add_products<T, 2>(sums, from - tap * outputs, outputs, outputs, w + tap * outputs * T);
    }
    if (column + 1 < k.kernel) {  // the first window, for the right one only
      add_products<T, 1>(sums + T, from - column * outputs, 0, outputs,
                         w + (column + 1) * outputs * T);
    }
  }
  store<T, 2>(sums, dx, k.inputs);
}

template <int T>
RUBATO_AVX512 void spread_one(const Walk& k, const Vector* dy, const float* weights, Index row,
                              Index column, Vector* dx) {
  Vector sums[T] = {};
  const Index outputs = k.outputs;
  for (Index r = std::max<Index>(0, row - k.kernel + 1); r <= std::min(row, k.out_height - 1);
       ++r) {
    const Index last = std::min(column, k.out_width - 1);
    for (Index c = std::max<Index>(0, column - k.kernel + 1); c <= last; ++c) {
      const Index tap = (row - r) * k.kernel + column - c;
      add_products<T, 1>(sums, dy + (r * k.out_width + c) * outputs, 0, outputs,
                         weights + tap * outputs * T);
    }
  }
  store<T, 1>(sums, dx, k.inputs);
}

// weights [kernel, kernel, outputs, T]
template <int T>
RUBATO_AVX512 void backward_tile(const Walk& k, const Vector* dy, const float* weights,
                                 Vector* dx) {
  for (Index row = 0; row < k.out_height + k.kernel - 1; ++row) {
    Index column = 0;
    for (; column + 1 < k.width; column += 2) {
      spread_pair<T>(k, dy, weights, row, column, dx + (row * k.width + column) * k.inputs);
    }
    if (column < k.width) {
      spread_one<T>(k, dy, weights, row, column, dx + (row * k.width + column) * k.inputs);
    }
  }
}

// sums[i] <- the sum of the lanes of tile[i]. Neighbours are added pair by pair, four times over.
RUBATO_AVX512 inline void sum_lanes(Vector (&tile)[2 * kLanes], float* sums) {
  for (int count = kLanes; count >= 2; count /= 2)
    for (int i = 0; i < count; ++i) {
      const Vector a = tile[2 * i], b = tile[2 * i + 1];
      tile[i] =
          __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
          __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    }
  for (int i = 0; i < 2; ++i)
    for (int lane = 0; lane < kLanes; ++lane) sums[i * kLanes + lane] = tile[i][lane];
}

// sums [O, I] of the products of O outputs' gradients and I elements of the windows, over all
// windows: x and dy point at the first of each.
template <int O, int I>
RUBATO_AVX512 void gradient_tile(const Walk& k, const Vector* x, const Vector* dy, float* sums) {
  Vector tile[2 * kLanes] = {};
  for (Index row = 0; row < k.out_height; ++row) {
    const Vector* from = x + row * k.width * k.inputs;
    for (Index column = 0; column < k.out_width; ++column) {
      for (int i = 0; i < I; ++i)
        for (int o = 0; o < O; ++o) tile[o * I + i] += dy[o] * from[i];
      from += k.inputs;
      dy += k.outputs;
    }
  }
  sum_lanes(tile, sums);
}

RUBATO_AVX512 void bias_gradient(const Walk& k, const Vector* dy, float* gradient) {
  for (Index o = 0; o < k.outputs; ++o) {
    Vector tile[2 * kLanes] = {};
    for (Index p = 0; p < k.out_height * k.out_width; ++p) tile[0] += dy[p * k.outputs + o];
    float sums[2 * kLanes];
    sum_lanes(tile, sums);
    gradient[o] += sums[0];
  }
}

template <int... I>
constexpr auto forward_tiles(std::integer_sequence<int, I...>) {
  return std::array{&forward_tile<I + 1>...};
}
template <int... I>
constexpr auto backward_tiles(std::integer_sequence<int, I...>) {
  return std::array{&backward_tile<I + 1>...};
}
template <int... I>
constexpr auto gradient_tiles(std::integer_sequence<int, I...>) {
  return std::array{&gradient_tile<I / kGradientTile + 1, I % kGradientTile + 1>...};
}
constexpr auto kForward = forward_tiles(std::make_integer_sequence<int, kTile>());
constexpr auto kBackward = backward_tiles(std::make_integer_sequence<int, kTile>());
constexpr auto kGradient =
    gradient_tiles(std::make_integer_sequence<int, kGradientTile * kGradientTile>());

}  // namespace

bool lanes_are_fast() {
#if defined(__x86_64__)
  static const bool value = __builtin_cpu_supports("avx512f");
  return value;
#else
  return false;
#endif
}

void to_lanes(const Shape& shape, const float* samples, int size, Lanes* lanes) {
  const Index plane = static_cast<Index>(shape.height) * shape.width;
  for (Index p = 0; p < plane; ++p)
    for (Index c = 0; c < shape.channels; ++c, ++lanes) {
      const float* from = samples + c * plane + p;
      int lane = 0;
      for (; lane < size; ++lane) lanes->of[lane] = from[static_cast<Index>(lane) * shape.count()];
      for (; lane < kLanes; ++lane) lanes->of[lane] = 0;
    }
}

void from_lanes(const Shape& shape, const Lanes* lanes, int size, float* samples) {
  const Index plane = static_cast<Index>(shape.height) * shape.width;
  for (Index p = 0; p < plane; ++p)
    for (Index c = 0; c < shape.channels; ++c, ++lanes) {
      float* to = samples + c * plane + p;
      for (int lane = 0; lane < size; ++lane) {
        to[static_cast<Index>(lane) * shape.count()] = lanes->of[lane];
      }
    }
}

LaneConvolution::LaneConvolution(const LayerPlan& plan, const Conv2d& conv)
    : plan_(plan),
      kernel_(conv.kernel),
      weights_(plan.weight_count),
      transposed_(plan.weight_count),
      biases_(plan.bias_count) {}

void LaneConvolution::load(const float* parameters) {
  const Walk k(plan_, kernel_);
  const float* from = parameters + plan_.weight_offset;  // [outputs, inputs, kernel, kernel]
  const Index taps = k.kernel * k.kernel;
  float* to = weights_.data();
  for_each_tile(k.outputs, kTile, [&](Index first, Index size) {
    for (Index tap = 0; tap < taps; ++tap)
      for (Index i = 0; i < k.inputs; ++i)
        for (Index o = first; o < first + size; ++o) *to++ = from[(o * k.inputs + i) * taps + tap];
  });
  std::copy_n(parameters + plan_.bias_offset, k.outputs, biases_.begin());
}

void LaneConvolution::load_transposed(const float* parameters) {
  const Walk k(plan_, kernel_);
  const float* from = parameters + plan_.weight_offset;
  const Index taps = k.kernel * k.kernel;
  float* to = transposed_.data();
  for_each_tile(k.inputs, kTile, [&](Index first, Index size) {
    for (Index tap = 0; tap < taps; ++tap)
      for (Index o = 0; o < k.outputs; ++o)
        for (Index i = first; i < first + size; ++i) *to++ = from[(o * k.inputs + i) * taps + tap];
  });
}

void LaneConvolution::forward(const Lanes* x, Lanes* y) const {
  const Walk k(plan_, kernel_);
  for_each_tile(k.outputs, kTile, [&](Index first, Index size) {
    const float* weights = weights_.data() + first * k.kernel * k.kernel * k.inputs;
    kForward[size - 1](k, vectors(x), weights, biases_.data() + first, vectors(y) + first);
  });
}

void LaneConvolution::backward(const Lanes* dy, Lanes* dx) const {
  const Walk k(plan_, kernel_);
  for_each_tile(k.inputs, kTile, [&](Index first, Index size) {
    const float* weights = transposed_.data() + first * k.kernel * k.kernel * k.outputs;
    kBackward[size - 1](k, vectors(dy), weights, vectors(dx) + first);
  });
}

void LaneConvolution::add_gradient(const Lanes* x, const Lanes* dy, float* gradient) const {
  const Walk k(plan_, kernel_);
  const Index taps = k.kernel * k.kernel;
  float* to = gradient + plan_.weight_offset;
  // With few channels the columns of a window's row, which lie beside each other, are taken as one.
  const Index columns = k.inputs < kGradientTile ? 1 : k.kernel;
  const Index width = k.kernel * k.inputs / columns;
  for (Index row = 0; row < k.kernel; ++row)
    for_each_tile(width, kGradientTile, [&](Index in, Index ins) {
      for_each_tile(k.outputs, kGradientTile, [&](Index out, Index outs) {
        for (Index column = 0; column < columns; ++column) {
          const Index at = column * width + in;
          float sums[2 * kLanes];
          kGradient[(outs - 1) * kGradientTile + ins - 1](
              k, vectors(x) + row * k.width * k.inputs + at, vectors(dy) + out, sums);
          for (Index o = 0; o < outs; ++o)
            for (Index i = 0; i < ins; ++i) {
              const Index input = (at + i) % k.inputs, tap = row * k.kernel + (at + i) / k.inputs;
              to[((out + o) * k.inputs + input) * taps + tap] += sums[o * ins + i];
            }
        }
      });
    });
  bias_gradient(k, vectors(dy), gradient + plan_.bias_offset);
}

// Every window lies inside: no padding.
RUBATO_AVX512 void lane_pool(const LayerPlan& plan, const MaxPool2d& pool, const Lanes* input,
                             Lanes* output, LaneBytes* winners) {
  const Vector* x = vectors(input);
  Vector* y = vectors(output);
  const Index channels = plan.input.channels, line = plan.input.width * channels;
  for (Index row = 0; row < plan.output.height; ++row)
    for (Index column = 0; column < plan.output.width; ++column) {
      const Vector* window = x + (row * line + column * channels) * pool.stride;
      for (Index c = 0; c < channels; ++c, ++window, ++y, ++winners) {
        Vector best = *window;
        Numbers winner = {};
        for (std::int32_t number = 1; number < pool.kernel * pool.kernel; ++number) {
          const Vector other =
              window[number / pool.kernel * line + number % pool.kernel * channels];
          const Numbers larger = other > best;
          best = larger ? other : best;
          winner = larger ? Numbers{} + number : winner;
        }
        *y = best;
        *reinterpret_cast<Bytes*>(winners->of) = __builtin_convertvector(winner, Bytes);
      }
    }
}

namespace {

// kOnce: every element lies in one window, so dx needs no clearing.
template <bool kOnce>
RUBATO_AVX512 void scatter_windows(const LayerPlan& plan, const MaxPool2d& pool,
                                   const LaneBytes* winners, const Vector* dy, Vector* dx) {
  const Index channels = plan.input.channels, line = plan.input.width * channels;
  if (!kOnce) {
    for (Index i = 0; i < plan.input.count(); ++i) dx[i] = Vector{};
  }
  for (Index row = 0; row < plan.output.height; ++row)
    for (Index column = 0; column < plan.output.width; ++column) {
      Vector* window = dx + (row * line + column * channels) * pool.stride;
      for (Index c = 0; c < channels; ++c, ++window, ++dy, ++winners) {
        const Numbers winner =
            __builtin_convertvector(*reinterpret_cast<const Bytes*>(winners->of), Numbers);
        for (std::int32_t number = 0; number < pool.kernel * pool.kernel; ++number) {
          Vector& to = window[number / pool.kernel * line + number % pool.kernel * channels];
          const Vector share = winner == number ? *dy : Vector{};
          to = kOnce ? share : to + share;
        }
      }
    }
}

}  // namespace

void lane_pool_backward(const LayerPlan& plan, const MaxPool2d& pool, const LaneBytes* winners,
                        const Lanes* dy, Lanes* dx) {
  const bool once = pool.kernel == pool.stride &&
                    plan.output.height * pool.stride == plan.input.height &&
                    plan.output.width * pool.stride == plan.input.width;
  const auto scatter = once ? &scatter_windows<true> : &scatter_windows<false>;
  scatter(plan, pool, winners, vectors(dy), vectors(dx));
}

RUBATO_AVX512 void lane_relu(Lanes* values, std::size_t count) {
  Vector* y = vectors(values);
  for (std::size_t i = 0; i < count; ++i) y[i] = y[i] < 0.0f ? Vector{} : y[i];
}

RUBATO_AVX512 void lane_relu_backward(const Lanes* values, Lanes* gradient, std::size_t count) {
  const Vector* y = vectors(values);
  Vector* dy = vectors(gradient);
  for (std::size_t i = 0; i < count; ++i) dy[i] = y[i] > 0.0f ? dy[i] : Vector{};
}

}  // namespace rubato::train
