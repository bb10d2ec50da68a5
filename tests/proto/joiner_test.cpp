#include "proto/joiner.hpp"

#include <doctest/doctest.h>

namespace rubato::proto {
namespace {

using Due = Joiner::Due;

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

TEST_CASE("joiner: says nothing before it starts") {
  Joiner joiner({});
  CHECK(joiner.poll(at(100)) == Due::Nothing);
  CHECK_FALSE(joiner.poll_wakeup().has_value());
}

TEST_CASE("joiner: Hello at once and each second, each reported once") {
  Joiner joiner({});
  joiner.on_start(at(5));
  CHECK(joiner.poll(at(5)) == Due::Hello);
  CHECK(joiner.poll(at(5)) == Due::Nothing);
  CHECK(joiner.poll_wakeup() == at(6));
  CHECK(joiner.poll(at(5.999)) == Due::Nothing);
  CHECK(joiner.poll(at(6)) == Due::Hello);
  CHECK(joiner.poll(at(8.5)) == Due::Hello);  // a late alarm is not made up for
  CHECK(joiner.poll_wakeup() == at(9.5));
}

TEST_CASE("joiner: heartbeats once joined, the first after their period") {
  Joiner joiner({});
  joiner.on_start(at(0));
  joiner.poll(at(0));
  joiner.on_joined(at(0.5));
  CHECK(joiner.poll(at(1)) == Due::Nothing);
  CHECK(joiner.poll_wakeup() == at(2.5));
  CHECK(joiner.poll(at(2.5)) == Due::Heartbeat);
  joiner.on_joined(at(3));  // told twice: the beat does not shift
  CHECK(joiner.poll_wakeup() == at(4.5));
}

TEST_CASE("joiner: gives up when the scheduler was silent for too long, while joining only") {
  Joiner joiner({});
  joiner.on_start(at(0));
  CHECK_FALSE(joiner.overdue(at(59.9)).has_value());
  REQUIRE(joiner.overdue(at(60)).has_value());
  CHECK(joiner.overdue(at(60))->code == ErrorCode::Timeout);
  CHECK(joiner.overdue(at(60))->message ==
        "scheduler: no answer to Hello for 60 s; is it running, and is the address right?");
  joiner.on_heard(at(50));
  CHECK_FALSE(joiner.overdue(at(109.9)).has_value());
  CHECK(joiner.overdue(at(110)).has_value());
  joiner.on_joined(at(109));
  CHECK_FALSE(joiner.overdue(at(10'000)).has_value());
}

TEST_CASE("joiner: once joined it is lonely after half the time, and forsaken after all of it") {
  Joiner joiner({.forsaken_after = Duration::from_seconds(100)});
  joiner.on_start(at(0));
  joiner.poll(at(0));
  CHECK_FALSE(joiner.forsaken(at(1000)).has_value());  // it has not joined
  CHECK_FALSE(joiner.lonely(at(1000)));
  joiner.on_joined(at(10));
  CHECK_FALSE(joiner.lonely(at(59)));
  CHECK(joiner.lonely(at(60)));
  CHECK_FALSE(joiner.forsaken(at(109)).has_value());
  REQUIRE(joiner.forsaken(at(110)).has_value());
  CHECK(joiner.forsaken(at(110))->code == ErrorCode::Gone);
  joiner.on_heard(at(100));
  CHECK_FALSE(joiner.lonely(at(149)));
  CHECK_FALSE(joiner.forsaken(at(199)).has_value());
  CHECK(joiner.forsaken(at(200)).has_value());
}

TEST_CASE("joiner: a sign of the run is no word of the scheduler: it is asked, and not given up") {
  Joiner joiner(
      {.forsaken_after = Duration::from_seconds(100), .ask_after = Duration::from_seconds(4)});
  joiner.on_start(at(0));
  joiner.on_joined(at(10));
  joiner.on_sign(at(90));
  CHECK(joiner.lonely(at(91)));
  CHECK_FALSE(joiner.forsaken(at(189)).has_value());
  CHECK(joiner.forsaken(at(190)).has_value());
  joiner.on_heard(at(100));
  CHECK_FALSE(joiner.lonely(at(103)));
}

TEST_CASE("joiner: time in which this node was away is not the scheduler's silence") {
  Joiner joiner({});
  joiner.on_start(at(0));
  for (int second = 0; second <= 50; ++second) CHECK(joiner.poll(at(second)) == Due::Hello);
  CHECK(joiner.poll(at(1051)) == Due::Hello);  // frozen for 1000 s: 51 of silence
  CHECK_FALSE(joiner.overdue(at(1051)).has_value());
  for (int second = 1052; second < 1060; ++second) {
    CHECK(joiner.poll(at(second)) == Due::Hello);
    CHECK_FALSE(joiner.overdue(at(second)).has_value());
  }
  CHECK(joiner.overdue(at(1060)).has_value());
}

}  // namespace
}  // namespace rubato::proto
