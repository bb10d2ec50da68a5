#include "train/cpu/response_norm.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/multiversion.hpp"

namespace rubato::train {

using Index = std::ptrdiff_t;

ResponseNorm::ResponseNorm(const LocalResponseNorm& norm, int channels, int positions, int block)
    : norm_(norm),
      channels_(channels),
      positions_(positions),
      block_(block),
      x_(static_cast<std::size_t>(channels)),
      dy_(x_),
      padded_(static_cast<std::size_t>(channels + 2 * norm.radius)),
      sums_(x_),
      scales_(x_),
      powers_(x_) {
  RUBATO_CHECK(channels % block == 0, "channels that do not fill their blocks");
}

// row [channels] <- one position; `first` is its channel 0.
void ResponseNorm::gather(const float* first, float* row) const {
  for (Index c = 0; c < channels_; c += block_) {
    std::copy_n(first + c * positions_, block_, row + c);
  }
}

void ResponseNorm::scatter(const float* row, float* first) const {
  for (Index c = 0; c < channels_; c += block_) {
    std::copy_n(row + c, block_, first + c * positions_);
  }
}

// sums_[c] = sum of padded[c .. c + 2 radius].
RUBATO_MULTIVERSION void ResponseNorm::sum_windows(const float* padded) {
  float* sums = sums_.data();
  std::copy_n(padded, channels_, sums);
  for (Index o = 1; o <= 2 * norm_.radius; ++o) {
    for (Index c = 0; c < channels_; ++c) sums[c] += padded[o + c];
  }
}

// scales_ = s and powers_ = s^-beta of the position in x_.
RUBATO_MULTIVERSION void ResponseNorm::fill_powers() {
  float* squares = padded_.data() + norm_.radius;
  for (Index c = 0; c < channels_; ++c) squares[c] = x_[c] * x_[c];
  sum_windows(padded_.data());
  for (Index c = 0; c < channels_; ++c) scales_[c] = norm_.bias + norm_.alpha * sums_[c];
  if (norm_.beta == 0.75f) {  // the usual one, without a call to pow
    for (Index c = 0; c < channels_; ++c) {
      const float root = std::sqrt(scales_[c]);
      powers_[c] = 1.0f / (root * std::sqrt(root));
    }
  } else {
    for (Index c = 0; c < channels_; ++c) powers_[c] = std::pow(scales_[c], -norm_.beta);
  }
}

RUBATO_MULTIVERSION void ResponseNorm::forward(int samples, const float* x, float* y) {
  for (Index b = 0; b < samples; ++b)
    for (Index p = 0; p < positions_; ++p) {
      const Index first = b * channels_ * positions_ + p * block_;
      gather(x + first, x_.data());
      fill_powers();
      for (Index c = 0; c < channels_; ++c) x_[c] *= powers_[c];
      scatter(x_.data(), y + first);
    }
}

// dx_j = dy_j s_j^-beta - 2 alpha beta x_j sum_{|c - j| <= radius} dy_c x_c s_c^(-beta - 1)
RUBATO_MULTIVERSION void ResponseNorm::backward(int samples, const float* x, const float* dy,
                                                float* dx) {
  const float factor = 2 * norm_.alpha * norm_.beta;
  for (Index b = 0; b < samples; ++b)
    for (Index p = 0; p < positions_; ++p) {
      const Index first = b * channels_ * positions_ + p * block_;
      gather(x + first, x_.data());
      gather(dy + first, dy_.data());
      fill_powers();
      float* products = padded_.data() + norm_.radius;
      for (Index c = 0; c < channels_; ++c) {
        products[c] = dy_[c] * x_[c] * powers_[c] / scales_[c];
      }
      sum_windows(padded_.data());
      for (Index c = 0; c < channels_; ++c) {
        dy_[c] = dy_[c] * powers_[c] - factor * x_[c] * sums_[c];
      }
      scatter(dy_.data(), dx + first);
    }
}

}  // namespace rubato::train
