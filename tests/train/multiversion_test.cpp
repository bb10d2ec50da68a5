// The loops whose bits must not depend on the processor: batches and the local step. What they give
// is compared with the same arithmetic in double precision, rounded to float after every operation:
// one operation on floats is exact enough in double that this is the float result, bit by bit.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "train/data/dataset.hpp"
#include "train/host_replica.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

std::vector<float> normals(std::size_t count, std::uint64_t seed) {
  std::vector<float> out(count);
  Rng rng(seed);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

float times(float a, float b) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
}
float plus(float a, float b) {
  return static_cast<float>(static_cast<double>(a) + static_cast<double>(b));
}

}  // namespace

TEST_CASE("the local step rounds after every operation, on every processor") {
  constexpr std::size_t kCount = 1003;  // no multiple of any vector
  constexpr float kRate = 0.0371f;
  HostReplica replica(kCount);
  std::vector<float> weights = normals(kCount, 1);
  Floats update(kCount, 0.0f);
  replica.load(weights);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> gradient = normals(kCount, 10 + step);
    replica.descend(gradient, kRate);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float by = times(kRate, gradient[i]);
      weights[i] = plus(weights[i], -by);
      update[i] = plus(update[i], by);
    }
  }
  std::vector<float> got(kCount);
  replica.read(got);
  CHECK(got == weights);

  const std::vector<float> arrived = normals(kCount, 2);
  replica.load_under_update(arrived);
  replica.read(got);
  for (std::size_t i = 0; i < kCount; ++i) REQUIRE(got[i] == plus(arrived[i], -update[i]));
  Floats taken;
  CHECK(replica.take_update(taken));
  CHECK(taken == update);
}

TEST_CASE("an update that is not finite is seen wherever it stands") {
  constexpr std::size_t kCount = 67;
  for (std::size_t at = 0; at < kCount; ++at) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      HostReplica replica(kCount);
      std::vector<float> gradient = normals(kCount, 3);
      Floats out(kCount);
      gradient[at] = bad;
      replica.descend(gradient, 1.0f);
      CAPTURE(at);
      CHECK_FALSE(replica.take_update(out));
      CHECK(replica.take_update(out));  // zeros now
    }
  }
}

TEST_CASE("pixels of a batch are scaled, then shifted, each rounded, on every processor") {
  Dataset data;
  data.shape = {3, 5, 7};
  data.classes = 2;
  data.pixel_scales = {{0.0123f, -1.7f}, {1.0f / 255, 0}, {0.0457f, 3.3f}};
  std::vector<std::uint8_t> pixels(256 * 105);
  Rng rng(5);
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(rng.below(256));
  data.labels.assign(256, 1);
  std::vector<std::uint32_t> order(256);
  std::iota(order.rbegin(), order.rend(), 0u);
  std::vector<float> inputs(pixels.size());
  std::vector<std::int32_t> labels(256);
  data.features = pixels;
  data.prefetch(order);  // a wish, which changes nothing
  data.gather(order, inputs, labels);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t in_sample = i % 105;
    const PixelScale& pixel = data.pixel_scales[in_sample / 35];
    const float value = pixels[order[i / 105] * 105 + in_sample];
    REQUIRE(inputs[i] == plus(times(value, pixel.scale), pixel.shift));
  }
}
