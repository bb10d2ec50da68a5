#include "train/cpu/lane_convolution.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace rubato::train {
namespace {

using Index = LaneWalk::Index;

// Calls use(first, size) for `count` channels in tiles of nearly equal size, `size_max` at most.
template <class Use>
void for_each_tile(Index count, Index size_max, Use use) {
  const Index tiles = (count + size_max - 1) / size_max;
  for (Index i = 0; i < tiles; ++i) {
    const Index first = count * i / tiles;
    use(first, count * (i + 1) / tiles - first);
  }
}

// Channels of one side of a convolution: how many, and how far apart their weights are.
struct Side {
  Index count, step;
};

// to [tile of `tiled`][taps][others][channels of a tile] <- weights [outputs, inputs, taps].
void pack(const float* weights, Index taps, Side tiled, Side others, Index tile, float* to) {
  for_each_tile(tiled.count, tile, [&](Index first, Index size) {
    for (Index tap = 0; tap < taps; ++tap)
      for (Index other = 0; other < others.count; ++other)
        for (Index i = first; i < first + size; ++i)
          *to++ = weights[i * tiled.step + other * others.step + tap];
  });
}

}  // namespace

LaneConvolution::LaneConvolution(const LaneKernels& kernels, const LayerPlan& plan,
                                 const Conv2d& conv)
    : kernels_(kernels),
      plan_(plan),
      walk_(plan, conv),
      weights_(plan.weight_count),
      transposed_(plan.weight_count),
      biases_(plan.bias_count) {}

void LaneConvolution::load(const float* parameters) {
  const LaneWalk& k = walk_;
  const Index taps = k.kernel * k.kernel;
  pack(parameters + plan_.weight_offset, taps, {k.outputs, k.inputs * taps}, {k.inputs, taps},
       kernels_.tile, weights_.data());
  std::copy_n(parameters + plan_.bias_offset, k.outputs, biases_.begin());
}

void LaneConvolution::load_transposed(const float* parameters) {
  const LaneWalk& k = walk_;
  const Index taps = k.kernel * k.kernel;
  pack(parameters + plan_.weight_offset, taps, {k.inputs, taps}, {k.outputs, k.inputs * taps},
       kernels_.tile, transposed_.data());
}

void LaneConvolution::forward(const float* x, float* y) const {
  const LaneWalk& k = walk_;
  for_each_tile(k.outputs, kernels_.tile, [&](Index first, Index size) {
    const float* weights = weights_.data() + first * k.kernel * k.kernel * k.inputs;
    kernels_.forward(k, size, x, weights, biases_.data() + first, y + first * kernels_.lanes);
  });
}

void LaneConvolution::backward(const float* dy, float* dx) const {
  const LaneWalk& k = walk_;
  for_each_tile(k.inputs, kernels_.tile, [&](Index first, Index size) {
    const float* weights = transposed_.data() + first * k.kernel * k.kernel * k.outputs;
    kernels_.backward(k, size, dy, weights, dx + first * kernels_.lanes);
  });
}

void LaneConvolution::add_gradient(const float* x, const float* dy, float* gradient) const {
  const LaneWalk& k = walk_;
  const Index taps = k.kernel * k.kernel;
  float* to = gradient + plan_.weight_offset;
  std::array<float, kLaneSumsMax> sums{};
  // With few channels the columns of a window's row, which lie beside each other, are taken as one.
  const Index columns = k.inputs < kernels_.gradient_inputs ? 1 : k.kernel;
  const Index width = k.kernel * k.inputs / columns;
  for (Index row = 0; row < k.kernel; ++row)
    for_each_tile(width, kernels_.gradient_inputs, [&](Index in, Index ins) {
      for_each_tile(k.outputs, kernels_.gradient_outputs, [&](Index out, Index outs) {
        for (Index column = 0; column < columns; ++column) {
          const Index at = column * width + in;
          kernels_.gradient(k, outs, ins, x + (row * k.width * k.inputs + at) * kernels_.lanes,
                            dy + out * kernels_.lanes, sums.data());
          for (Index o = 0; o < outs; ++o)
            for (Index i = 0; i < ins; ++i) {
              const Index input = (at + i) % k.inputs, tap = row * k.kernel + (at + i) / k.inputs;
              to[((out + o) * k.inputs + input) * taps + tap] +=
                  sums[static_cast<std::size_t>(o * ins + i)];
            }
        }
      });
    });
  kernels_.bias_gradient(k, dy, gradient + plan_.bias_offset);
}

}  // namespace rubato::train
