// The bound on a rate that losses teach: when it falls, how far, and how it comes back.
#include "sync/rate_cap.hpp"

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

namespace rubato::sync {
namespace {

using Verdict = RateCap::Verdict;

// Returns: the verdict on the last of `count` losses, each `factor` times the one before.
Verdict losses(RateCap& cap, int count, double& loss, double factor, double rate) {
  Verdict last = Verdict::Fine;
  for (int i = 0; i < count; ++i) {
    loss *= factor;
    const Verdict verdict = cap.on_evaluation(loss, rate);
    if (verdict != Verdict::Fine && verdict != Verdict::NewLow) last = verdict;
  }
  return last;
}

TEST_CASE("rate cap: a loss that falls leaves the bound where it began") {
  RateCap cap(0.1, 8);
  double loss = 2.3;
  CHECK(losses(cap, 200, loss, 0.98, 5) == Verdict::Fine);
  CHECK(cap.max() == 8);
  CHECK(cap.lowest_loss() == loss);
}

TEST_CASE("rate cap: a loss above 1.4 times the lowest halves the highest rate of late") {
  RateCap cap(0.1, 8);
  CHECK(cap.on_evaluation(1, 3) == Verdict::NewLow);
  CHECK(cap.on_evaluation(1.39, 1) == Verdict::Fine);
  CHECK(cap.on_evaluation(1.41, 1) == Verdict::Rose);
  // 3, of which two evaluations have forgotten 0.15 of what lies above 1 each.
  CHECK(cap.max() == doctest::Approx((1 + 2 * 0.85 * 0.85) / 2));
}

TEST_CASE("rate cap: after a rise it waits before it judges again") {
  RateCap cap(0.1, 8);
  cap.on_evaluation(1, 4);
  CHECK(cap.on_evaluation(std::numeric_limits<double>::quiet_NaN(), 4) == Verdict::Rose);
  for (int i = 0; i < 4; ++i) CHECK(cap.on_evaluation(5, 2) == Verdict::Fine);
  CHECK(cap.on_evaluation(5, 2) == Verdict::Rose);
  CHECK(cap.max() < 2);
}

TEST_CASE("rate cap: a loss that stalls takes 0.7 of the rate under which it did") {
  RateCap cap(0.1, 8);
  double loss = 1;
  losses(cap, 5, loss, 1, 2);
  CHECK(cap.max() == 8);
  CHECK(losses(cap, 3, loss, 1, 2) == Verdict::Stalled);
  CHECK(cap.max() == doctest::Approx(1.4));
  double stalled = loss;
  CHECK(losses(cap, 3, stalled, 1, 1.4) == Verdict::Stalled);
  CHECK(cap.max() == doctest::Approx(0.98));
}

TEST_CASE("rate cap: later it takes longer to say so, in proportion") {
  RateCap cap(0.1, 8);
  double loss = 100;
  losses(cap, 400, loss, 0.99, 2);
  int evaluations = 0;
  for (; evaluations < 1000; ++evaluations)
    if (cap.on_evaluation(loss, 2) == Verdict::Stalled) break;
  CHECK(evaluations > 60);   // the window now is about 100 long
  CHECK(evaluations < 400);  // three of them at most
}

TEST_CASE("rate cap: each low that is new by more than noise gives a tenth back") {
  RateCap cap(0.1, 8);
  cap.on_evaluation(1, 4);
  cap.on_evaluation(3, 4);
  CHECK(cap.max() == 2);
  cap.on_evaluation(0.9, 2);
  CHECK(cap.max() == doctest::Approx(2.2));
  cap.on_evaluation(0.95, 2);
  CHECK(cap.on_evaluation(0.88, 2) == Verdict::Fine);
  CHECK(cap.lowest_loss() == 0.88);
  CHECK(cap.max() == doctest::Approx(2.2));
  CHECK(cap.on_evaluation(0.87, 2) == Verdict::NewLow);  // 3 % below 0.9
  CHECK(cap.max() == doctest::Approx(2.42));
  double loss = 0.9;
  losses(cap, 40, loss, 0.9, 2);
  CHECK(cap.max() == 8);
}

TEST_CASE("rate cap: before the first loss that says anything nothing is judged") {
  RateCap cap(0.1, 8);
  for (const double nothing : {std::numeric_limits<double>::quiet_NaN(), 0.0, -1.0})
    CHECK(cap.on_evaluation(nothing, 4) == Verdict::Fine);
  CHECK(cap.lowest_loss() == 0);
}

}  // namespace
}  // namespace rubato::sync
