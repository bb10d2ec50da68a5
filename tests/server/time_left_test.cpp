// How long a run may still take.
#include "server/time_left.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace rubato::server {
namespace {

// 1/loss grows by `slope` a second from 1/2; accuracy is 1 - loss / 2.
std::vector<EvaluationRecord> curve(double slope, int points) {
  std::vector<EvaluationRecord> all;
  for (int i = 0; i < points; ++i) {
    const double loss = 1 / (0.5 + slope * i);
    all.push_back({.seconds = static_cast<double>(i), .loss = loss, .accuracy = 1 - loss / 2});
  }
  return all;
}

TEST_CASE("time left: the curve leads to the target") {
  const auto falling = curve(0.1, 20);  // 1 / 0.25 = 4 at 35 s
  const auto left = seconds_left({.target_loss = 0.25}, falling, 20, 100);
  REQUIRE(left.has_value());
  CHECK(*left == doctest::Approx(15));
  const auto accurate = seconds_left({.target_accuracy = 0.875}, falling, 20, 100);
  REQUIRE(accurate.has_value());
  CHECK(*accurate == doctest::Approx(15));
  // Both must hold: the later one counts.
  const auto both = seconds_left({.target_loss = 0.5, .target_accuracy = 0.875}, falling, 19, 100);
  REQUIRE(both.has_value());
  CHECK(*both == doctest::Approx(16));
}

TEST_CASE("time left: never more than what max_seconds leaves") {
  for (const double slope : {0.1, 0.0001, 0.0, -0.001}) {
    CAPTURE(slope);
    const auto left =
        seconds_left({.target_loss = 0.01, .max_seconds = 30}, curve(slope, 20), 20, 100);
    REQUIRE(left.has_value());
    CHECK(*left <= 10);
  }
  CHECK(seconds_left({.max_seconds = 30}, {}, 40, 0) == 0.0);
}

TEST_CASE("time left: by steps at the pace of the run, unknown without a limit or a curve") {
  const auto left = seconds_left({.max_steps = 400}, {}, 20, 100);
  REQUIRE(left.has_value());
  CHECK(*left == doctest::Approx(60));
  CHECK_FALSE(seconds_left({.target_loss = 0.25}, curve(0.1, 3), 3, 10).has_value());
  CHECK_FALSE(seconds_left({.target_loss = 0.25}, curve(-0.001, 20), 20, 10).has_value());
}

}  // namespace
}  // namespace rubato::server
