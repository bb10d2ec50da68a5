// The GPU made of plain loops: that it keeps the order that train/cuda/gpu.hpp promises, and no
// more, so that a wait that is missing shows.
#include "tests/train/host_gpu.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

using namespace rubato;
using namespace rubato::train;
using namespace rubato::train::cuda;

namespace {

// Uploads 7 and copies it on within the GPU's memory, on another stream. Returns: what arrived.
float copied_on(std::uint64_t seed, bool waits) {
  HostGpu gpu({.seed = seed});
  const Memory pinned = gpu.allocate_pinned(sizeof(float)).value();
  const Memory first = gpu.allocate(sizeof(float)).value();
  const Memory second = gpu.allocate(sizeof(float)).value();
  const auto uploaded = gpu.event();
  *pinned.as<float>() = 7;
  gpu.copy(Stream::Upload, first.as<float>(), pinned.as<float>(), sizeof(float));
  gpu.record(*uploaded, Stream::Upload);
  if (waits) gpu.wait(Stream::Compute, *uploaded);
  gpu.copy(Stream::Compute, second.as<float>(), first.as<float>(), sizeof(float));
  gpu.wait(Stream::Compute);
  const float arrived = *second.as<float>();
  gpu.wait(Stream::Upload);
  return arrived;
}

}  // namespace

TEST_CASE("host GPU: a missing wait between streams shows in some order, and in the late one") {
  CHECK(copied_on(0, false) == 0);
  CHECK(copied_on(0, true) == 7);
  std::set<float> seen;
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    seen.insert(copied_on(seed, false));
    CHECK(copied_on(seed, true) == 7);
  }
  CHECK(seen == std::set<float>{0, 7});
}

TEST_CASE("host GPU: pinned memory that changes before its copy has run shows") {
  HostGpu gpu;
  const Memory pinned = gpu.allocate_pinned(sizeof(float)).value();
  const Memory memory = gpu.allocate(sizeof(float)).value();
  const auto copied = gpu.event();
  CHECK(gpu.passed(*copied));  // never recorded
  *pinned.as<float>() = 1;
  gpu.copy(Stream::Upload, memory.as<float>(), pinned.as<float>(), sizeof(float));
  gpu.record(*copied, Stream::Upload);
  CHECK_FALSE(gpu.passed(*copied));
  *pinned.as<float>() = 2;
  gpu.wait(*copied);
  CHECK(gpu.passed(*copied));
  CHECK(*memory.as<float>() == 2);
  CHECK(gpu.counts().waits == 1);

  // Other host memory is read at once.
  float value = 3;
  gpu.copy(Stream::Upload, memory.as<float>(), &value, sizeof(float));
  value = 4;
  gpu.wait(Stream::Upload);
  CHECK(*memory.as<float>() == 3);
  gpu.clear(Stream::Upload, memory.as<float>(), sizeof(float));
  gpu.copy(Stream::Upload, &value, memory.as<float>(), sizeof(float));
  CHECK(value == 0);
}

TEST_CASE("host GPU: a stream keeps its order, and a wait is for the record before it") {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    HostGpu gpu({.seed = seed});
    const Memory memory = gpu.allocate(3 * sizeof(float)).value();
    float* const x = memory.as<float>();
    const Memory pinned = gpu.allocate_pinned(2 * sizeof(float)).value();
    pinned.as<float>()[0] = -1;
    pinned.as<float>()[1] = 2;
    const auto event = gpu.event();
    gpu.copy(Stream::Compute, x, pinned.as<float>(), sizeof(float));
    gpu.launch(Stream::Compute, 1, ReluForward{x, x + 1});
    gpu.copy(Stream::Compute, x, pinned.as<float>() + 1, sizeof(float));
    gpu.record(*event, Stream::Compute);
    gpu.wait(Stream::Download, *event);
    gpu.copy(Stream::Download, x + 2, x, sizeof(float));
    gpu.record(*event, Stream::Download);  // the wait above is for the first record
    gpu.wait(*event);
    CHECK(x[0] == 2);
    CHECK(x[1] == 0);
    CHECK(x[2] == 2);
  }
}

TEST_CASE("host GPU: a recorded graph runs when it is launched, each time") {
  HostGpu gpu;
  const Memory memory = gpu.allocate(2 * sizeof(float)).value();
  float* const x = memory.as<float>();
  x[1] = 1;
  gpu.launch(Stream::Compute, 1, AddBias{x + 1, x, 1, 1, false});
  gpu.wait(Stream::Compute);
  x[0] = 0;
  gpu.begin_capture();
  gpu.launch(Stream::Compute, 1, AddBias{x + 1, x, 1, 1, false});
  CHECK_THROWS_AS(gpu.launch(Stream::Compute, 1, ReluForward{x, x}), std::logic_error);
  CHECK_THROWS_AS(
      gpu.multiply({.m = 1, .n = 1, .k = 1, .a = x, .lda = 1, .b = x, .ldb = 1, .c = x, .ldc = 1}),
      std::logic_error);
  CHECK_THROWS_AS(gpu.allocate(1).value(), std::logic_error);
  CHECK_THROWS_AS(gpu.wait(Stream::Compute), std::logic_error);
  CHECK_THROWS_AS(gpu.clear(Stream::Upload, x, sizeof(float)), std::logic_error);
  const auto graph = gpu.end_capture().value();
  gpu.wait(Stream::Compute);
  CHECK(x[0] == 0);
  gpu.launch(*graph);
  gpu.launch(*graph);
  gpu.wait(Stream::Compute);
  CHECK(x[0] == 2);
  CHECK_THROWS_AS((void)gpu.end_capture(), std::logic_error);
}

TEST_CASE("host GPU: memory has bounds, a size and an end") {
  HostGpu gpu({.bytes = 1000});
  CHECK_FALSE(gpu.allocate(1001).has_value());
  float* freed = nullptr;
  {
    const Memory memory = gpu.allocate(400).value();
    CHECK(gpu.memory_free() == 600);
    freed = memory.as<float>();
    CHECK(freed[99] == 0);
    CHECK_THROWS_AS(gpu.clear(Stream::Compute, freed, 401), std::logic_error);
    CHECK_THROWS_AS(gpu.clear(Stream::Compute, freed + 100, 4), std::logic_error);
    CHECK_THROWS_AS(gpu.multiply({.m = 10,
                                  .n = 10,
                                  .k = 1,
                                  .a = freed,
                                  .lda = 1,
                                  .b = freed,
                                  .ldb = 10,
                                  .c = freed + 1,
                                  .ldc = 10}),
                    std::logic_error);
  }
  CHECK(gpu.memory_free() == 1000);
  CHECK(std::isnan(freed[0]));
  CHECK_THROWS_AS(gpu.clear(Stream::Compute, freed, 4), std::logic_error);
}

TEST_CASE("host GPU: products of all shapes, transposed or not, added or not") {
  HostGpu gpu;
  constexpr int kM = 3, kN = 4, kK = 5, kRow = 7;
  const Memory memory = gpu.allocate(3 * 64 * sizeof(float)).value();
  float* const a = memory.as<float>();
  float *const b = a + 64, *const c = b + 64;
  for (int i = 0; i < 192; ++i) a[i] = static_cast<float>((i * 37) % 11 - 5);
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const float beta : {0.0f, 1.0f, -2.0f}) {
        const std::vector<float> before(c, c + 64);
        gpu.multiply({transpose_a, transpose_b, kM, kN, kK, a, kRow, b, kRow, beta, c, kRow});
        gpu.wait(Stream::Compute);
        for (int i = 0; i < kM; ++i)
          for (int j = 0; j < kN; ++j) {
            float sum = beta * before[static_cast<std::size_t>(i * kRow + j)];
            for (int k = 0; k < kK; ++k)
              sum += (transpose_a ? a[k * kRow + i] : a[i * kRow + k]) *
                     (transpose_b ? b[j * kRow + k] : b[k * kRow + j]);
            CHECK(c[i * kRow + j] == sum);  // small whole numbers
          }
        for (int i = 0; i < kM - 1; ++i)
          CHECK(c[i * kRow + kN] == before[static_cast<std::size_t>(i * kRow + kN)]);
      }
}
