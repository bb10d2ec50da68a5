// Which loads a worker measures, and the average of them: by a clock of the test.
#include "cluster/own_evaluation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace rubato::cluster {
namespace {

Instant second(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

const std::vector<float> kSome = {1, 2};

proto::Evaluation of(double loss, double accuracy) {
  proto::Evaluation measured;
  measured.loss = loss;
  measured.accuracy = accuracy;
  return measured;
}

TEST_CASE("own evaluation: the first load is measured, and then one each interval") {
  OwnEvaluation own(Duration::from_seconds(10), false);
  CHECK(own.on_load(second(3), kSome));
  CHECK_FALSE(own.on_load(second(12.9), kSome));
  CHECK(own.loaded_at() == second(3));
  CHECK(own.on_load(second(13), kSome));
  CHECK(own.loaded_at() == second(13));
  CHECK_FALSE(OwnEvaluation(std::nullopt, true).on_load(second(3), kSome));
}

TEST_CASE("own evaluation: without an average each figure is told as it is") {
  OwnEvaluation own(Duration::from_seconds(10), false);
  own.on_load(second(3), kSome);
  CHECK(own.average().empty());
  const auto told = own.on_measured(of(2, 0.5));
  REQUIRE(told);
  CHECK(told->loss == 2);
  CHECK_FALSE(told->gap);
}

TEST_CASE("own evaluation: the better of parameters and average is told, with the gap") {
  OwnEvaluation own(Duration::from_seconds(10), true);
  const auto measure = [&](double loaded, double average) {
    CHECK(own.average().empty());
    CHECK_FALSE(own.on_measured(of(loaded, 0.1)));
    CHECK(own.average().size() == 2);
    return *own.on_measured(of(average, 0.2));
  };
  own.on_load(second(3), kSome);
  const auto average_is_better = measure(3, 2);
  CHECK(average_is_better.loss == 2);
  CHECK(average_is_better.accuracy == 0.2);
  CHECK(average_is_better.gap == doctest::Approx(0.5));
  const auto average_lags = measure(2, 4);
  CHECK(average_lags.loss == 2);
  CHECK(average_lags.accuracy == 0.1);
  CHECK(average_lags.gap == doctest::Approx(-0.5));
  CHECK_FALSE(measure(NAN, 4).gap);
  CHECK_FALSE(measure(3, 0).gap);
}

// Weights of 20/n make the average of n loads one of the last twentieth: of a line, it lies
// (n - 1)/21 behind (Shamir and Zhang, with 20 for 1 + their eta).
TEST_CASE("own evaluation: the average is that of the last part of all loads") {
  OwnEvaluation own(Duration::from_seconds(1e6), true);
  const int loads = 20000;
  for (int i = 1; i <= loads; ++i) {
    const std::vector<float> line = {static_cast<float>(i), 7};
    own.on_load(second(i), line);
  }
  own.on_measured(of(1, 1));
  CHECK(own.average()[0] == doctest::Approx(loads - (loads - 1) / 21.0).epsilon(0.001));
  CHECK(own.average()[1] == 7);
}

TEST_CASE("own evaluation: where shards went back, the average begins anew") {
  OwnEvaluation own(Duration::from_seconds(1e6), true);
  own.on_load(second(1), std::vector<float>{100, 100});
  own.on_set_back();
  own.on_load(second(2), kSome);
  own.on_measured(of(1, 1));
  CHECK(own.average()[0] == 1);
  CHECK(own.average()[1] == 2);
}

}  // namespace
}  // namespace rubato::cluster
