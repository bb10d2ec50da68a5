#include "base/rng.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

using rubato::Rng;

namespace {

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <class Draw>
Moments moments(int count, Draw draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

constexpr int kDraws = 200'000;

}  // namespace

TEST_CASE("the generator is xoshiro256** seeded by splitmix64") {
  // First outputs computed with the authors' C code, prng.di.unimi.it.
  Rng rng(0);
  CHECK(rng.next() == 0x99ec5f36cb75f2b4ULL);
  CHECK(rng.next() == 0xbf6e1f784956452aULL);
  CHECK(rng.next() == 0x1a5f849d4933e6e0ULL);
}

TEST_CASE("streams: same arguments same numbers, any other argument other numbers") {
  const auto first = [](std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    return Rng(seed, stream, index).next();
  };
  CHECK(first(1, 2, 3) == first(1, 2, 3));
  CHECK(first(1, 2, 3) != first(2, 2, 3));
  CHECK(first(1, 2, 3) != first(1, 3, 3));
  CHECK(first(1, 2, 3) != first(1, 2, 4));
  CHECK(first(1, 2, 3) != first(1, 3, 2));
}

TEST_CASE("uniform: from 0 to below 1, mean 1/2, variance 1/12") {
  Rng rng(7);
  const Moments m = moments(kDraws, [&] {
    const double x = rng.uniform();
    REQUIRE((x >= 0 && x < 1));
    return x;
  });
  CHECK(m.mean == doctest::Approx(0.5).epsilon(0.01));
  CHECK(m.variance == doctest::Approx(1.0 / 12).epsilon(0.01));
}

TEST_CASE("below: every value equally often") {
  Rng rng(7);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts[rng.below(7)];
  for (const int count : counts) CHECK(count == doctest::Approx(10'000).epsilon(0.04));
  CHECK(rng.below(1) == 0);
}

TEST_CASE("below stays below any bound") {
  CHECK(rc::check([](std::uint64_t seed, std::uint64_t bound) {
    RC_PRE(bound > 0);
    RC_ASSERT(Rng(seed).below(bound) < bound);
  }));
}

TEST_CASE("normal: mean 0, variance 1, 68 % within one deviation") {
  Rng rng(7);
  int inside = 0;
  const Moments m = moments(kDraws, [&] {
    const double x = rng.normal();
    inside += std::abs(x) < 1;
    return x;
  });
  CHECK(std::abs(m.mean) < 0.01);
  CHECK(m.variance == doctest::Approx(1).epsilon(0.01));
  CHECK(static_cast<double>(inside) / kDraws == doctest::Approx(0.6827).epsilon(0.01));
}

TEST_CASE("gamma: mean and variance are the shape, below and above 1") {
  for (const double shape : {0.1, 0.7, 1.0, 3.0, 40.0}) {
    CAPTURE(shape);
    Rng rng(7);
    const Moments m = moments(kDraws, [&] { return rng.gamma(shape); });
    CHECK(m.mean == doctest::Approx(shape).epsilon(0.02));
    CHECK(m.variance == doctest::Approx(shape).epsilon(0.05));
  }
}

TEST_CASE("shuffle: a permutation, and every position is equally likely for the first value") {
  std::array<int, 5> landed{};
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    std::vector<int> values(5);
    std::iota(values.begin(), values.end(), 0);
    Rng(seed).shuffle(std::span(values));
    ++landed[static_cast<std::size_t>(std::find(values.begin(), values.end(), 0) - values.begin())];
    std::sort(values.begin(), values.end());
    for (int i = 0; i < 5; ++i) REQUIRE(values[static_cast<std::size_t>(i)] == i);
  }
  for (const int count : landed) CHECK(count == doctest::Approx(4000).epsilon(0.06));
}
