// Steps that take their time: by a clock of the test.
#include "cluster/stretched_step.hpp"

#include <doctest/doctest.h>


namespace rubato::cluster {
namespace {

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

TEST_CASE("stretched step: it is over when its time has passed, and its delay is made up for") {
  StretchedStep step([](Instant, int batch) { return Duration::from_seconds(0.1 * batch); });
  REQUIRE(step.stretches());
  step.begin(at(1), 2);
  CHECK(step.takes() == Duration::from_seconds(0.2));
  CHECK_FALSE(step.ends());
  CHECK_FALSE(step.poll_over(at(9)));  // not computed yet
  step.on_computed();
  CHECK(step.ends() == at(1.2));
  CHECK_FALSE(step.poll_over(at(1.1)));
  CHECK(step.poll_over(at(1.25)));
  CHECK_FALSE(step.poll_over(at(1.25)));
  CHECK(step.late() == Duration::from_seconds(0.05));
  step.begin(at(1.25), 1);
  step.on_computed();
  CHECK(step.ends() == at(1.3));
}

TEST_CASE("stretched step: one that waits for parameters ends when it is told") {
  StretchedStep step([](Instant, int) { return Duration::from_seconds(1); });
  step.begin(at(1), 1);
  CHECK(step.due() == at(2));
  step.on_computed(at(3));
  CHECK(step.ends() == at(3));
  CHECK(step.poll_over(at(3)));
  CHECK(step.late() == Duration{});
}

TEST_CASE("stretched step: without times none is stretched") {
  CHECK_FALSE(StretchedStep({}).stretches());
}

}  // namespace
}  // namespace rubato::cluster
