#include "train/cpu/cpu_limits.hpp"

#include <algorithm>
#include <vector>

#include "train/best_time.hpp"
#include "train/cpu/gemm.hpp"
#include "train/cpu/one_thread.hpp"

namespace rubato::train {
namespace {

constexpr int kSide = 512;                             // of square matrices: three are 3 MiB
constexpr std::size_t kCopied = std::size_t{1} << 24;  // floats: 64 MiB, beyond most caches

}  // namespace

DeviceLimits cpu_limits(Duration time) {
  const OneThread alone;
  constexpr std::size_t kElements = static_cast<std::size_t>(kSide) * kSide;
  const std::vector<float> a(kElements, 1.0f), b(kElements, 1.0f);
  std::vector<float> c(kElements);
  const Product product{.m = kSide,
                        .n = kSide,
                        .k = kSide,
                        .a = a.data(),
                        .row_a = kSide,
                        .b = b.data(),
                        .row_b = kSide};
  double multiplied = 0;
  for (const Library library : {Library::OpenBlas, Library::OneDnn}) {
    const double seconds = best_seconds(time, [&] {
      multiply_by(library, {product, 0.0f, c.data(), kSide});
    });
    multiplied = std::max(multiplied, 2.0 * kSide * kSide * kSide / seconds);
  }
  const std::vector<float> from(kCopied, 1.0f);
  std::vector<float> to(kCopied);
  const double copied = best_seconds(time, [&] { std::ranges::copy(from, to.begin()); });
  return {.flops = multiplied, .copy = 2.0 * kCopied * sizeof(float) / copied};
}

}  // namespace rubato::train
