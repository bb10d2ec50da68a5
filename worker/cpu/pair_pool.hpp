// worker/cpu/pair_pool.hpp - the most common max-pool, 2x2 with stride 2 and no padding, in a third
// of oneDNN's time: no window overlaps, so the backward pass writes each value once and clears
// nothing.
// Shapes: x [images, height, width, block], y [images, height / 2, width / 2, block]; an image is a
// sample with channels last, or one block of its channels in nChw16c. Threads: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rubato::worker {

class PairPool {
 public:
  PairPool(std::ptrdiff_t images, int height, int width, int block);

  void forward(const float* x, float* y);
  // dx <- the gradient of x, from dy, that of y. Requires: forward() before.
  void backward(const float* dy, float* dx) const;

 private:
  std::ptrdiff_t images_, height_, width_, block_;
  std::vector<std::uint8_t> winners_;  // as y: the first largest of its window, row by row
};

}  // namespace rubato::worker
