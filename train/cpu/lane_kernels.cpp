#include "train/cpu/lane_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

// The kernels are written once, in lane_kernels.inc, and compiled here for each kind of vectors. A
// processor with 32 registers has room for 26 sums beside the values they come from, one with 16
// for 12.
namespace rubato::train {
namespace {

#if defined(__x86_64__)

namespace avx512 {
constexpr const char* kName = "AVX-512";
constexpr int kLanes = 16, kOneDnnBlock = 16, kTile = 13, kGradientOutputs = 5, kGradientInputs = 5;
#define RUBATO_LANES __attribute__((target("avx512f")))
#include "train/cpu/lane_kernels.inc"
#undef RUBATO_LANES
}  // namespace avx512

namespace avx2 {
constexpr const char* kName = "AVX2";
constexpr int kLanes = 8, kOneDnnBlock = 8, kTile = 6, kGradientOutputs = 4, kGradientInputs = 3;
#define RUBATO_LANES __attribute__((target("avx2,fma")))
#include "train/cpu/lane_kernels.inc"
#undef RUBATO_LANES
}  // namespace avx2

#elif defined(__aarch64__)

namespace neon {
constexpr const char* kName = "NEON";
constexpr int kLanes = 4, kOneDnnBlock = 1, kTile = 13, kGradientOutputs = 5, kGradientInputs = 5;
#define RUBATO_LANES
#include "train/cpu/lane_kernels.inc"
#undef RUBATO_LANES
}  // namespace neon

#endif

}  // namespace

const std::vector<const LaneKernels*>& lane_kernels() {
  static const std::vector<const LaneKernels*> here = [] {
    std::vector<const LaneKernels*> sets;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) sets.push_back(&avx512::kKernels);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      sets.push_back(&avx2::kKernels);
#elif defined(__aarch64__)
    sets.push_back(&neon::kKernels);
#endif
    return sets;
  }();
  return here;
}

}  // namespace rubato::train
