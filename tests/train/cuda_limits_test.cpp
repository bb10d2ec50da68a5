// The limits of a GPU, on one made of plain loops: that each figure is measured, and what happens
// where memory is short.
#include "train/cuda/cuda_limits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/train/host_gpu.hpp"

using namespace rubato;
using namespace rubato::train;
using namespace rubato::train::cuda;

namespace {

constexpr LimitSizes kSmall{.side = 24, .copied = 5000, .transferred = 3000};
constexpr std::size_t kMatrices = std::size_t{3} * 24 * 24 * sizeof(float);
constexpr std::size_t kCopies = std::size_t{2} * 5000;
constexpr int kRuns = 4;  // of each figure, at least

}  // namespace

TEST_CASE("limits of a GPU: all figures, and memory comes back") {
  HostGpu gpu;
  const std::size_t before = gpu.memory_free();
  const Instant began = steady_now();
  const auto limits = gpu_limits(gpu, Duration{}, kSmall);
  const double most = (steady_now() - began).seconds() / kRuns;  // the best run is shorter
  REQUIRE(limits);
  CHECK(gpu.memory_free() == before);
  CHECK(gpu.counts().launches >= kRuns);
  CHECK(gpu.counts().waits >= 4 * kRuns);  // a run that is not waited for measures nothing
  REQUIRE(limits->upload);
  REQUIRE(limits->download);
  for (const double figure : {limits->flops, limits->copy, *limits->upload, *limits->download})
    CHECK(std::isfinite(figure));
  CHECK(limits->flops > 2.0 * 24 * 24 * 24 / most);
  CHECK(limits->copy > 2.0 * 5000 / most);
  CHECK(*limits->upload > 3000 / most);
  CHECK(*limits->download > 3000 / most);
}

TEST_CASE("limits of a GPU: too little memory is one line, and memory comes back") {
  constexpr std::size_t kNeeded = std::max(kMatrices, kCopies);
  HostGpu enough({.bytes = kNeeded});
  CHECK(gpu_limits(enough, Duration{}, kSmall).has_value());
  for (const std::size_t bytes : {std::size_t{0}, kMatrices - 1, kCopies - 1}) {
    CAPTURE(bytes);
    LimitSizes sizes = kSmall;
    if (bytes == kCopies - 1) sizes.side = 1;
    HostGpu gpu({.bytes = bytes});
    const auto limits = gpu_limits(gpu, Duration{}, sizes);
    REQUIRE_FALSE(limits.has_value());
    CHECK(limits.error().code == ErrorCode::Unsupported);
    const std::string& line = limits.error().message;
    CAPTURE(line);
    CHECK(line.starts_with("the limits of the GPU: "));
    CHECK(line.find("bytes free") != std::string::npos);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(gpu.memory_free() == bytes);
  }
}
