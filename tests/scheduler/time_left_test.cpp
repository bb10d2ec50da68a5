// How long a run may still take.
#include "scheduler/time_left.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/numbers.hpp"

namespace rubato::scheduler {
namespace {

using Curve = std::vector<EvaluationRecord>;

// An evaluation a second: the loss is 4 / sqrt(t), accuracy is 1 - loss / 8.
Curve falling(int points, double power = 0.5) {
  Curve all;
  for (int i = 1; i <= points; ++i) {
    const double loss = 4 / std::pow(i, power);
    all.push_back({.seconds = 1.0 * i, .loss = loss, .accuracy = 1 - loss / 8});
  }
  return all;
}

std::optional<double> left_of(const StopOptions& stop, const Curve& curve) {
  return seconds_left(stop, curve, curve.back().seconds, 100);
}

TEST_CASE("time left: the curve leads to the target, and the mean that is judged is late") {
  const auto curve = falling(40);  // 0.4 at 100 s
  const auto left = left_of({.target_loss = 0.4}, curve);
  REQUIRE(left.has_value());
  CHECK(*left == doctest::Approx(64));
  const auto accurate = left_of({.target_accuracy = 0.95}, curve);
  REQUIRE(accurate.has_value());
  CHECK(*accurate == doctest::Approx(64));
  // Both must hold: the later one counts.
  const auto both = left_of({.target_loss = 0.5, .target_accuracy = 0.95}, curve);
  REQUIRE(both.has_value());
  CHECK(*both == doctest::Approx(64));
}

TEST_CASE("time left: unknown while the curve is short, far from the target, or leads elsewhere") {
  CHECK_FALSE(left_of({.target_loss = 0.8}, falling(14)).has_value());
  CHECK(left_of({.target_loss = 0.8}, falling(15)).has_value());
  CHECK_FALSE(left_of({.target_loss = 0.3}, falling(40)).has_value());  // more than 3 times ahead
  CHECK_FALSE(left_of({.target_loss = 0.4}, falling(40, -0.1)).has_value());
  CHECK_FALSE(left_of({.target_accuracy = 1.0}, falling(40)).has_value());
  // It fell, and then no more: what was said before does not hold.
  Curve flat = falling(40);
  for (int i = 0; i < 20; ++i)
    flat.push_back({.seconds = flat.back().seconds + 1, .loss = flat[39].loss, .accuracy = 0.9});
  CHECK_FALSE(left_of({.target_loss = 0.55}, flat).has_value());
  Curve nan = falling(40);
  nan[35].loss = std::nan("");
  CHECK_FALSE(left_of({.target_loss = 0.4}, nan).has_value());
}

TEST_CASE("time left: what was left is over, but the run is not") {
  const auto curve = falling(40);
  CHECK_FALSE(seconds_left({.target_loss = 0.4}, curve, 105, 100).has_value());
  CHECK_FALSE(seconds_left({.max_seconds = 30}, {}, 40, 0).has_value());
}

TEST_CASE("time left: a limit ends the run where there is no target, or where it comes first") {
  CHECK(seconds_left({.max_seconds = 30}, {}, 10, 0) == 20.0);
  CHECK(left_of({.target_loss = 0.4, .max_seconds = 60}, falling(40)) == 20.0);
  // Nobody knows when the target is reached, so nobody knows whether the limit comes first.
  CHECK_FALSE(left_of({.target_loss = 0.01, .max_seconds = 1000}, falling(40)).has_value());
  CHECK(left_of({.target_loss = 0.01, .max_seconds = 44}, falling(40)) == 4.0);
  CHECK_FALSE(seconds_left({}, falling(40), 40, 100).has_value());
}

TEST_CASE("time left: by steps at the pace of the run, once there is one") {
  const auto left = seconds_left({.max_steps = 400}, {}, 20, 100);
  REQUIRE(left.has_value());
  CHECK(*left == doctest::Approx(60));
  CHECK_FALSE(seconds_left({.max_steps = 400}, {}, 20, 0).has_value());
  CHECK_FALSE(seconds_left({.max_steps = 400}, {}, 20, 8).has_value());
  CHECK(seconds_left({.max_seconds = 30, .max_steps = 400}, {}, 20, 100) == 10.0);
}

// tests/scheduler/time_left_curves.csv: run, target loss, time to it, then an evaluation a line.
// Runs of BSP, ASP, ADSP and tempo on edge-3, edge-3-skewed and paper-3, and of `rubato up`.
struct Recorded {
  double target = 0, reached = 0;
  Curve curve;
};

std::map<std::string, Recorded> recorded() {
  std::ifstream file(RUBATO_TIME_LEFT_CURVES);
  std::map<std::string, Recorded> runs;
  std::string run, target, reached, seconds, loss;
  std::getline(file, run);  // the header
  while (std::getline(file, run, ',') && std::getline(file, target, ',') &&
         std::getline(file, reached, ',') && std::getline(file, seconds, ',') &&
         std::getline(file, loss)) {
    Recorded& each = runs[run];
    each.target = parse_number<double>(target).value();
    each.reached = parse_number<double>(reached).value();
    each.curve.push_back({.seconds = parse_number<double>(seconds).value(),
                          .loss = parse_number<double>(loss).value()});
  }
  return runs;
}

TEST_CASE(
    "time left: on recorded runs its word is right within a factor of two, or there is none") {
  const auto runs = recorded();
  REQUIRE(runs.size() >= 8);
  std::size_t evaluations = 0, words = 0, right = 0;
  for (const auto& [name, run] : runs) {
    for (std::size_t known = 1; known < run.curve.size(); ++known) {
      const std::span<const EvaluationRecord> curve(run.curve.data(), known);
      const double now = curve.back().seconds;
      ++evaluations;
      const auto left =
          seconds_left({.target_loss = run.target, .max_seconds = 20000}, curve, now, 100);
      if (!left) continue;
      ++words;
      const double ratio = *left / (run.reached - now);
      if (ratio > 0.5 && ratio < 2) ++right;
      CAPTURE(name);
      CAPTURE(now);
      CAPTURE(*left);
      CHECK((*left > 15 || run.reached - now < 60));  // never "1 s left" for 15 s
    }
  }
  MESSAGE("of ", evaluations, " evaluations ", words, " have a word, of which ", right,
          " are right within a factor of two");
  CHECK(words * 4 > evaluations);
  CHECK(right * 10 > words * 9);
}

}  // namespace
}  // namespace rubato::scheduler
