#include "worker/cpu/pair_pool.hpp"

#include <algorithm>

#include "base/multiversion.hpp"

namespace rubato::worker {
namespace {

using Index = std::ptrdiff_t;

// One row of windows; `row`: floats from one row of x to the next.
RUBATO_MULTIVERSION void forward_row(const float* __restrict x, Index row, Index windows,
                                     Index block, float* __restrict y,
                                     std::uint8_t* __restrict winners) {
  for (Index w = 0; w < windows; ++w, x += 2 * block, y += block, winners += block) {
    for (Index c = 0; c < block; ++c) {
      const float x0 = x[c], x1 = x[block + c], x2 = x[row + c], x3 = x[row + block + c];
      float best = x0;
      std::int32_t winner = 0;
      winner = x1 > best ? 1 : winner;
      best = x1 > best ? x1 : best;
      winner = x2 > best ? 2 : winner;
      best = x2 > best ? x2 : best;
      winner = x3 > best ? 3 : winner;
      best = x3 > best ? x3 : best;
      y[c] = best;
      winners[c] = static_cast<std::uint8_t>(winner);
    }
  }
}

RUBATO_MULTIVERSION void backward_row(const float* __restrict dy,
                                      const std::uint8_t* __restrict winners, Index row,
                                      Index windows, Index block, float* __restrict dx) {
  for (Index w = 0; w < windows; ++w, dx += 2 * block, dy += block, winners += block) {
    for (Index c = 0; c < block; ++c) {
      const float d = dy[c];
      const std::int32_t winner = winners[c];
      dx[c] = winner == 0 ? d : 0.0f;
      dx[block + c] = winner == 1 ? d : 0.0f;
      dx[row + c] = winner == 2 ? d : 0.0f;
      dx[row + block + c] = winner == 3 ? d : 0.0f;
    }
  }
}

}  // namespace

PairPool::PairPool(Index images, int height, int width, int block)
    : images_(images),
      height_(height),
      width_(width),
      block_(block),
      winners_(static_cast<std::size_t>(images * (height / 2) * (width / 2) * block)) {}

void PairPool::forward(const float* x, float* y) {
  const Index row = width_ * block_, out_row = width_ / 2 * block_, rows = height_ / 2;
  for (Index i = 0; i < images_; ++i)
    for (Index h = 0; h < rows; ++h) {
      const Index out = (i * rows + h) * out_row;
      forward_row(x + (i * height_ + 2 * h) * row, row, width_ / 2, block_, y + out,
                  winners_.data() + out);
    }
}

void PairPool::backward(const float* dy, float* dx) const {
  const Index row = width_ * block_, out_row = width_ / 2 * block_, rows = height_ / 2;
  for (Index i = 0; i < images_; ++i) {
    float* image = dx + i * height_ * row;
    for (Index h = 0; h < rows; ++h) {
      const Index out = (i * rows + h) * out_row;
      float* first = image + 2 * h * row;
      backward_row(dy + out, winners_.data() + out, row, width_ / 2, block_, first);
      if (width_ % 2 == 1) {  // the last column is in no window
        std::fill_n(first + row - block_, block_, 0.0f);
        std::fill_n(first + 2 * row - block_, block_, 0.0f);
      }
    }
    std::fill_n(image + 2 * rows * row, (height_ - 2 * rows) * row, 0.0f);
  }
}

}  // namespace rubato::worker
