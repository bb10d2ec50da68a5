#include "train/cpu/lstm_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

// The kernels are written once, in lstm_kernels.inc, and compiled here for each kind of vectors. A
// tile has two vectors of sums a row. A processor with 32 registers has room for 24 beside the
// values they come from, one with 16 for 12.
namespace rubato::train {
namespace {

#if defined(__x86_64__)

namespace avx512 {
constexpr const char* kName = "AVX-512";
constexpr int kLanes = 16, kRows = 12;
#define RUBATO_LANES __attribute__((target("avx512f")))
#include "train/cpu/lstm_kernels.inc"
#undef RUBATO_LANES
}  // namespace avx512

namespace avx2 {
constexpr const char* kName = "AVX2";
constexpr int kLanes = 8, kRows = 6;
#define RUBATO_LANES __attribute__((target("avx2,fma")))
#include "train/cpu/lstm_kernels.inc"
#undef RUBATO_LANES
}  // namespace avx2

#endif

namespace baseline {
#if defined(__aarch64__)
constexpr const char* kName = "NEON";
constexpr int kRows = 12;
#else
constexpr const char* kName = "baseline";
constexpr int kRows = 6;
#endif
constexpr int kLanes = 4;
#define RUBATO_LANES
#include "train/cpu/lstm_kernels.inc"
#undef RUBATO_LANES
}  // namespace baseline

}  // namespace

PackedWeights::PackedWeights(Index k, Index n, Index panel) : k_(k), n_(n), columns_(panel) {
  const Index floats = (1 + k) * columns_, line = std::size(Line{}.values);
  lines_a_panel_ = (floats + line - 1) / line;
  lines_.resize(lines_a_panel_ * ((n + columns_ - 1) / columns_));
}

void PackedWeights::pack(View weights, const float* starts) {
  for (Index column = 0; column < n_; column += columns_) {
    float* to = lines_[column / columns_ * lines_a_panel_].values;
    const Index count = std::min(columns_, n_ - column);
    if (starts) std::copy_n(starts + column, count, to);
    to += columns_;
    for (Index i = 0; i < k_; ++i, to += columns_) {
      const float* from = weights.first + i * weights.step_i + column * weights.step_j;
      for (Index j = 0; j < count; ++j) to[j] = from[j * weights.step_j];
    }
  }
}

const std::vector<const LstmKernels*>& lstm_kernels() {
  static const std::vector<const LstmKernels*> here = [] {
    std::vector<const LstmKernels*> sets;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) sets.push_back(&avx512::kKernels);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      sets.push_back(&avx2::kKernels);
#endif
    sets.push_back(&baseline::kKernels);
    return sets;
  }();
  return here;
}

}  // namespace rubato::train
