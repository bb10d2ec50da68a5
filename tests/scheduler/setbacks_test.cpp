// Setbacks: when a loss breaks the parameters, and how often the shards may go back.
#include "scheduler/setbacks.hpp"

#include <doctest/doctest.h>

#include <limits>

namespace rubato::scheduler::setbacks_tests {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

TEST_CASE("setbacks: the loss is not finite twice in a row") {
  Setbacks setbacks;
  CHECK_FALSE(setbacks.on_loss(at(1), kNaN));
  CHECK(setbacks.doubtful());
  CHECK_FALSE(setbacks.on_loss(at(2), 0.5));
  CHECK_FALSE(setbacks.doubtful());
  CHECK_FALSE(setbacks.on_loss(at(3), kNaN));
  CHECK(setbacks.on_loss(at(4), std::numeric_limits<double>::infinity()));
}

TEST_CASE("setbacks: what was measured before the last one does not count") {
  Setbacks setbacks;
  setbacks.on_loss(at(1), kNaN);
  setbacks.begin(at(10), 4);
  CHECK(setbacks.count() == 1);
  CHECK(setbacks.back_to() == 4);
  CHECK_FALSE(setbacks.doubtful());
  CHECK_FALSE(setbacks.on_loss(at(9), kNaN));
  CHECK_FALSE(setbacks.on_loss(at(10), kNaN));
  CHECK_FALSE(setbacks.doubtful());
  CHECK_FALSE(setbacks.on_loss(at(11), kNaN));
  CHECK(setbacks.on_loss(at(12), kNaN));
}

TEST_CASE("setbacks: one is under way until all shards have its list") {
  Setbacks setbacks;
  CHECK_FALSE(setbacks.under_way(0));
  setbacks.begin(at(1), 0);
  setbacks.on_listed(6);
  CHECK(setbacks.under_way(5));
  CHECK_FALSE(setbacks.under_way(6));
}

TEST_CASE("setbacks: the third within the window is one too many, a later one is not") {
  Setbacks setbacks;
  CHECK_FALSE(setbacks.exhausted(at(0)));
  setbacks.begin(at(0), 1);
  CHECK_FALSE(setbacks.exhausted(at(100)));
  setbacks.begin(at(100), 2);
  CHECK(setbacks.exhausted(at(600)));
  CHECK_FALSE(setbacks.exhausted(at(601)));
  setbacks.begin(at(601), 3);
  CHECK(setbacks.count() == 3);
}

}  // namespace
}  // namespace rubato::scheduler::setbacks_tests
