// Traces made up from a seed: their moments against closed forms.
#include "emulation/trace_makers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace rubato::emulation::trace_makers_tests {
namespace {

using cluster::ValueTrace;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

std::vector<double> values_of(const ValueTrace& trace) {
  std::vector<double> values;
  for (const auto& point : trace.points()) values.push_back(point.value);
  return values;
}

// To five standard errors.
void check_mean(const std::vector<double>& stays, double expected, double its_deviation) {
  const double error = its_deviation / std::sqrt(static_cast<double>(stays.size()));
  CHECK(std::abs(mean(stays) - expected) < 5 * error);
}

}  // namespace

TEST_CASE("traces made: Wi-Fi has its mean and deviation, and no memory") {
  const auto values = values_of(
      make_wifi({.seconds = 1e5, .every_seconds = 1, .mbps = 20, .deviation = 0.4}, Rng(7)));
  REQUIRE(values.size() == 100'000);
  check_mean(values, 20, 8);
  CHECK(deviation(values) == doctest::Approx(8).epsilon(0.03));
  double product = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i)
    product += (values[i] - 20) * (values[i + 1] - 20) / 64;
  CHECK(std::abs(product / 1e5) < 0.02);
}

TEST_CASE("traces made: a day's mean speed is halfway between its ends") {
  const auto trace = make_day({.seconds = 86400, .every_seconds = 60, .low = 0.2});
  CHECK(trace.at({}) == 1);
  CHECK(trace.at(Duration::from_seconds(43200)) == doctest::Approx(0.2));
  CHECK(mean(values_of(trace)) == doctest::Approx(0.6).epsilon(0.001));
}

TEST_CASE("traces made: on and off are Weibull times of their means and shape") {
  for (const double shape : {0.6, 1.0, 2.0}) {
    const auto trace =
        make_on_off({.seconds = 3e6, .on_seconds = 100, .off_seconds = 20, .shape = shape}, Rng(3));
    const Dwells dwells = dwells_of(trace);
    REQUIRE(dwells.on.size() > 10'000);
    const double second = std::tgamma(1 + 2 / shape) / std::pow(std::tgamma(1 + 1 / shape), 2);
    const double relative = std::sqrt(second - 1);
    check_mean(dwells.on, 100, 100 * relative);
    check_mean(dwells.off, 20, 20 * relative);
    CHECK(deviation(dwells.on) == doctest::Approx(100 * relative).epsilon(0.1));
    const double on = std::accumulate(dwells.on.begin(), dwells.on.end(), 0.0);
    CHECK(on / trace.points().back().at.seconds() == doctest::Approx(100.0 / 120).epsilon(0.02));
  }
}

TEST_CASE("traces made: times may be drawn from those of a recorded trace") {
  const auto trace = make_on_off({.seconds = 1e5, .on_seen = {10, 30}, .off_seen = {5}}, Rng(1));
  const Dwells dwells = dwells_of(trace);
  for (const double on : dwells.on) CHECK((on == 10 || on == 30));
  for (const double off : dwells.off) CHECK(off == 5);
  check_mean(dwells.on, 20, 10);
}

TEST_CASE("traces made: a machine's mean life is that of an exponential with an end") {
  const auto trace = make_revocation(
      {.seconds = 2e7, .mean_seconds = 1000, .life_max_seconds = 1500, .back_seconds = 50}, Rng(5));
  const Dwells dwells = dwells_of(trace);
  check_mean(dwells.on, 1000 * (1 - std::exp(-1.5)), 600);
  for (const double off : dwells.off) CHECK(off == doctest::Approx(50));
  CHECK(std::ranges::max(dwells.on) == doctest::Approx(1500));
}

TEST_CASE("traces made: same seed, same trace, and another seed, another") {
  CHECK(make_wifi({}, Rng(1)).points() == make_wifi({}, Rng(1)).points());
  CHECK(make_wifi({}, Rng(1)).points() != make_wifi({}, Rng(2)).points());
  CHECK(make_on_off({}, Rng(4)).points() == make_on_off({}, Rng(4)).points());
}

}  // namespace rubato::emulation::trace_makers_tests
