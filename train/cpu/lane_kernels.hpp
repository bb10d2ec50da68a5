// train/cpu/lane_kernels.hpp - image layers with samples side by side, one in each lane of a
// vector: whatever the number of channels is, no part of a vector stays empty, and every loop over
// channels and positions is a plain one. oneDNN puts channels into the lanes instead: 64 of them
// fit, LeNet's 1, 20 and 50 do not (docs/cpu.md).
// A set of kernels is for one kind of vectors. Its block is as many samples as these have lanes.
// Shapes: activations [height, width, channels, lanes], those of one block, aligned to a vector.
// Errors: none. Threads: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/model/model_spec.hpp"

namespace rubato::train {

// A convolution of a square kernel, stride 1 and no padding, in the terms of its loops.
struct LaneWalk {
  using Index = std::ptrdiff_t;

  Index inputs, width;
  Index outputs, out_height, out_width;
  Index kernel;

  LaneWalk(const LayerPlan& plan, const Conv2d& conv)
      : inputs(plan.input.channels),
        width(plan.input.width),
        outputs(plan.output.channels),
        out_height(plan.output.height),
        out_width(plan.output.width),
        kernel(conv.kernel.height) {}
};

inline constexpr int kLaneSumsMax = 32;  // what LaneKernels::gradient may write

struct LaneKernels {
  using Index = LaneWalk::Index;

  const char* name;
  int lanes;
  // Channels that oneDNN puts into vectors of this kind. 1: it has no code for them.
  int onednn_block;
  // Sums stay in registers: of so many channels at two positions, or of so many outputs by so many
  // inputs of a weight's gradient. The sizes below are these at most.
  int tile;
  int gradient_outputs, gradient_inputs;

  // y of `size` channels, from x and weights [kernel, kernel, inputs, size].
  void (*forward)(const LaneWalk& walk, Index size, const float* x, const float* weights,
                  const float* biases, float* y);
  // dx of `size` channels, from dy and weights [kernel, kernel, outputs, size].
  void (*backward)(const LaneWalk& walk, Index size, const float* dy, const float* weights,
                   float* dx);
  // sums [outputs, inputs] of the products of so many outputs' gradients and elements of the
  // windows, over all windows and samples: x and dy point at the first of each. Writes whole
  // vectors of sums.
  void (*gradient)(const LaneWalk& walk, Index outputs, Index inputs, const float* x,
                   const float* dy, float* sums);
  // Adds to the biases' gradient.
  void (*bias_gradient)(const LaneWalk& walk, const float* dy, float* gradient);

  // y, winners <- the largest of each window and its number there, row by row; the first of equals.
  // Every window lies inside.
  void (*pool)(const LayerPlan& plan, const MaxPool2d& pool, const float* x, float* y,
               std::uint8_t* winners);
  void (*pool_backward)(const LayerPlan& plan, const MaxPool2d& pool, const std::uint8_t* winners,
                        const float* dy, float* dx);

  // `count` vectors in place; NaN passes through. Backward: dy <- 0 where y is not positive.
  void (*relu)(float* y, std::size_t count);
  void (*relu_backward)(const float* y, float* dy, std::size_t count);
};

// The sets that this processor can run, the widest first.
const std::vector<const LaneKernels*>& lane_kernels();

}  // namespace rubato::train
