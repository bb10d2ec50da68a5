// train/cpu/lane_kernels.hpp - image layers with 16 samples side by side, one in each lane of a
// vector: whatever the number of channels is, no part of a vector stays empty, and every loop over
// channels and positions is a plain one. oneDNN puts channels into the lanes instead: 64 of them
// fit, LeNet's 1, 20 and 50 do not (docs/cpu.md).
// Shapes: activations [height, width, channels] Lanes, those of one block of 16 samples.
// Errors: none. Threads: pure; a LaneConvolution has one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/model_spec.hpp"

namespace rubato::train {

inline constexpr int kLanes = 16;
struct alignas(64) Lanes {
  float of[kLanes];
};
struct alignas(16) LaneBytes {
  std::uint8_t of[kLanes];
};

// Whether this processor has the 32 registers of 16 lanes that the kernels are written for.
bool lanes_are_fast();

// lanes <- `size` samples, NCHW, `shape` each; 0 in the lanes beyond them. And back.
void to_lanes(const Shape& shape, const float* samples, int size, Lanes* lanes);
void from_lanes(const Shape& shape, const Lanes* lanes, int size, float* samples);

// A convolution of stride 1 without padding.
class LaneConvolution {
 public:
  LaneConvolution(const LayerPlan& plan, const Conv2d& conv);

  // Takes over the weights and biases of the model's flat vector, before forward().
  void load(const float* parameters);
  void forward(const Lanes* x, Lanes* y) const;
  // dx <- the gradient of x, from dy, that of y. load_transposed(): as load(), for this.
  void load_transposed(const float* parameters);
  void backward(const Lanes* dy, Lanes* dx) const;
  // Adds this block's share to the model's flat gradient.
  void add_gradient(const Lanes* x, const Lanes* dy, float* gradient) const;

 private:
  LayerPlan plan_;
  int kernel_;
  std::vector<float> weights_;     // [tile of outputs][kernel, kernel, inputs][outputs of a tile]
  std::vector<float> transposed_;  // [tile of inputs][kernel, kernel, outputs][inputs of a tile]
  std::vector<float> biases_;
};

// y, winners <- the largest of each window and its number there, row by row; the first of equals.
void lane_pool(const LayerPlan& plan, const MaxPool2d& pool, const Lanes* x, Lanes* y,
               LaneBytes* winners);
void lane_pool_backward(const LayerPlan& plan, const MaxPool2d& pool, const LaneBytes* winners,
                        const Lanes* dy, Lanes* dx);

// In place; NaN passes through. Backward: dy <- 0 where y is not positive.
void lane_relu(Lanes* y, std::size_t count);
void lane_relu_backward(const Lanes* y, Lanes* dy, std::size_t count);

}  // namespace rubato::train
