#include "sync/loss_curve.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/rng.hpp"

namespace rubato::sync {
namespace {

std::vector<LossSample> sample_curve(const LossCurve& curve, double from, double step, int count,
                                     double noise = 0, std::uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<LossSample> samples;
  for (int i = 0; i < count; ++i) {
    const double t = from + step * i;
    samples.push_back({.seconds = t, .loss = curve.at(t) + noise * rng.normal()});
  }
  return samples;
}

// The same decay seen while training `speed` times as fast from `from` on.
std::vector<LossSample> sped_up(const LossCurve& curve, double from, double speed, double noise = 0,
                                std::uint64_t seed = 1) {
  LossCurve faster = curve;
  faster.a *= speed;
  faster.b = curve.a * from + curve.b - faster.a * from;
  return sample_curve(faster, from, 5, 12, noise, seed);
}

const LossCurve kCurve{.a = 0.0025, .b = 0.4, .c = 0.2};

}  // namespace

TEST_CASE("the bounded fit finds an exact curve again") {
  const auto fit = fit_bounded(sample_curve(kCurve, 0, 30, 10), 1.0);
  REQUIRE(fit);
  CHECK(fit->curve.a == doctest::Approx(kCurve.a).epsilon(1e-4));
  CHECK(fit->curve.b == doctest::Approx(kCurve.b).epsilon(1e-4));
  CHECK(fit->curve.c == doctest::Approx(kCurve.c).epsilon(1e-3));
  CHECK(fit->curve.seconds_to(0.5) == doctest::Approx(1173.333).epsilon(1e-4));
}

TEST_CASE("the bounded fit keeps its bounds on a flat noisy window") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const auto samples = sample_curve({.a = 1e-5, .b = 2, .c = 0.1}, 0, 5, 8, 0.02, seed);
    const auto fit = fit_bounded(samples, 0.4);
    if (!fit) continue;
    for (const LossCurve& curve : {fit->curve, fit->gentlest}) {
      CHECK(curve.a > 0);
      CHECK(curve.c >= 0);
      CHECK(curve.c <= 0.4);
      for (const auto& [t, loss] : samples) CHECK(std::abs(curve.at(t) - loss) < 0.1);
    }
    CHECK(fit->gentlest.c <= fit->curve.c);
  }
}

TEST_CASE("no curve is fitted to a rising loss or to three samples") {
  const std::vector<LossSample> rising = {{0, 1.0}, {5, 1.1}, {10, 1.25}, {15, 1.3}};
  CHECK_FALSE(fit_bounded(rising, 0.5));
  CHECK_FALSE(fit_bounded(std::vector<LossSample>{{0, 1.0}, {5, 0.9}, {10, 0.85}}, 0.5));
}

TEST_CASE("equal training is equally fast, although the later window falls less") {
  const auto before = sample_curve(kCurve, 0, 5, 12);
  const auto after = sample_curve(kCurve, 60, 5, 12);
  const double drop_before = before.front().loss - before.back().loss;
  const double drop_after = after.front().loss - after.back().loss;
  CHECK(drop_after < 0.8 * drop_before);
  const auto speed = compare_speed(before, after);
  REQUIRE(speed);
  CHECK(speed->ratio == doctest::Approx(1).epsilon(0.02));
  CHECK_FALSE(speed->faster());
}

TEST_CASE("twice as fast is found, through noise, half as fast is not faster") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const auto before = sample_curve(kCurve, 0, 5, 12, 0.01, seed);
    const auto doubled = compare_speed(before, sped_up(kCurve, 60, 2, 0.01, seed + 100));
    REQUIRE(doubled);
    CHECK(doubled->faster());
    const auto halved = compare_speed(before, sped_up(kCurve, 60, 0.5, 0.01, seed + 100));
    REQUIRE(halved);
    CHECK_FALSE(halved->faster());
    CHECK(halved->ratio < 1);
  }
}

TEST_CASE("there and back cancels what the clock mispredicts") {
  // Both halves are seen twice too slow by a clock that runs twice too fast.
  const Speed speed = round_trip({.ratio = 0.75, .error = 0.05}, {.ratio = 1.0 / 3, .error = 0.03});
  CHECK(speed.ratio == doctest::Approx(1.5));
  CHECK(speed.error == doctest::Approx(0.5 * 1.5 * std::hypot(0.05 / 0.75, 0.09)));
  CHECK(speed.faster());
}

TEST_CASE("a return that does not fall counts as its error, not as infinitely slow") {
  const Speed speed = round_trip({.ratio = 0.5, .error = 0.1}, {.ratio = -0.2, .error = 0.4});
  CHECK(speed.ratio == doctest::Approx(std::sqrt(0.5 / 0.4)));
  CHECK_FALSE(speed.faster());
}

TEST_CASE("where the loss did not fall there is no clock, and slopes decide") {
  const std::vector<LossSample> rising = {{0, 1.0}, {5, 1.05}, {10, 1.08}, {15, 1.14}};
  const std::vector<LossSample> falling = {{20, 1.1}, {25, 1.0}, {30, 0.92}, {35, 0.84}};
  const std::vector<LossSample> still_rising = {{20, 1.15}, {25, 1.16}, {30, 1.15}, {35, 1.17}};
  CHECK_FALSE(compare_speed(rising, falling));
  CHECK(falls_faster(rising, falling));
  CHECK_FALSE(falls_faster(rising, still_rising));
  CHECK_FALSE(falls_faster(falling, rising));
}

}  // namespace rubato::sync
