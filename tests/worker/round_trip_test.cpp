// When an answer is overdue, by the times that earlier answers took.
#include "worker/round_trip.hpp"

#include <doctest/doctest.h>

namespace rubato::worker {
namespace {

TEST_CASE("round trip: the first time counts three times, as RFC 6298 has it") {
  RoundTrip trip;
  CHECK_FALSE(trip.known());
  trip.add(Duration::from_ms(100));
  REQUIRE(trip.known());
  CHECK(trip.overdue() == Duration::from_ms(300));
  trip.add(Duration::from_ms(180));  // 110 ms, with a variation of 57.5 ms
  CHECK(trip.overdue().seconds() == doctest::Approx(0.340));
}

TEST_CASE("round trip: equal times leave no room, and longer ones make it soon") {
  RoundTrip trip;
  for (int i = 0; i < 100; ++i) trip.add(Duration::from_ms(20));
  CHECK(trip.overdue() < Duration::from_ms(21));
  trip.add(Duration::from_ms(500));
  CHECK(trip.overdue() > Duration::from_ms(500));
}

TEST_CASE("round trip: one that took no time is known, too") {
  RoundTrip trip;
  trip.add({});
  CHECK(trip.known());
  CHECK(trip.overdue() == Duration{});
}

}  // namespace
}  // namespace rubato::worker
