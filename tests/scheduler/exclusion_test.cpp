// Exclusion: who is kept out and for how long, and the refused commits of each worker.
#include "scheduler/exclusion.hpp"

#include <doctest/doctest.h>

namespace rubato::scheduler::exclusion_tests {
namespace {

constexpr WorkerId kZero{0}, kOne{1};

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

WorkerWatch::Verdict waited_for(double seconds) {
  return {.kind = WorkerWatch::Verdict::Kind::Stalled,
          .worker = kZero,
          .text = "has not committed",
          .waited = Duration::from_seconds(seconds),
          .allowed = Duration::from_seconds(seconds)};
}

proto::Standing standing(WorkerId worker, proto::RefusedCounts refused) {
  proto::Standing all;
  all.worker = worker;
  all.refused = refused;
  return all;
}

TEST_CASE("exclusion: whoever stalled stays away for as long as others waited, later for longer") {
  Exclusion exclusion(WatchOptions{});
  CHECK_FALSE(exclusion.keeps_waiting(at(0), "a", true, false));
  for (const int away : {30, 60, 120, 120}) {
    exclusion.on_stalled(at(100), "a", waited_for(30), false);
    CHECK(exclusion.keeps_waiting(at(99 + away), "a", true, false));
    CHECK_FALSE(exclusion.may_come_back(at(99 + away), "a"));
    CHECK_FALSE(exclusion.keeps_waiting(at(100 + away), "a", true, false));
    CHECK(exclusion.may_come_back(at(100 + away), "a"));
  }
  CHECK_FALSE(exclusion.keeps_waiting(at(101), "b", true, false));
}

TEST_CASE("exclusion: a process that was started anew need not wait the first time") {
  Exclusion exclusion(WatchOptions{});
  exclusion.on_stalled(at(100), "a", waited_for(30), false);
  CHECK_FALSE(exclusion.keeps_waiting(at(101), "a", false, false));
  exclusion.on_stalled(at(200), "a", waited_for(30), false);
  CHECK(exclusion.keeps_waiting(at(201), "a", false, false));
}

// It could hold a round for as long again under each new name.
TEST_CASE("exclusion: after a stranger that stalled all strangers stay away, and are given less") {
  Exclusion exclusion(WatchOptions{});
  CHECK_FALSE(exclusion.keeps_waiting(at(0), "x1", false, true));
  for (const int away : {300, 600, 1200, 1200}) {
    exclusion.on_stalled(at(1000), "x1", waited_for(300), true);
    CHECK(exclusion.keeps_waiting(at(999 + away), "x2", false, true));
    CHECK_FALSE(exclusion.keeps_waiting(at(1000 + away), "x2", false, true));
  }
  CHECK_FALSE(exclusion.keeps_waiting(at(1001), "listed", false, false));
  // The next one has 30 s for its first commit, though it makes steps.
  const WorkerId next{7};
  exclusion.on_start(at(3000), next, "x2", true);
  proto::Progress steps;
  steps.steps = 10;
  exclusion.watch()->on_progress(at(3001), next, steps);
  proto::Standing held = standing(next, {});
  held.waited = Duration::from_seconds(31);
  held.waiting = 2;
  const auto verdict = exclusion.watch()->on_standing(at(3032), held, 3);
  REQUIRE(verdict);
  CHECK(verdict->kind == WorkerWatch::Verdict::Kind::Stalled);
  // An hour later strangers are met as at the beginning.
  exclusion.on_stalled(at(10'000), "x3", waited_for(30), true);
  CHECK_FALSE(exclusion.keeps_waiting(at(10'031), "x4", false, true));
}

TEST_CASE("exclusion: a process that was set aside is known by its incarnation") {
  Exclusion exclusion(WatchOptions{});
  CHECK(exclusion.aside(7) == nullptr);
  exclusion.set_aside(7, "its commits were refused");
  REQUIRE(exclusion.aside(7) != nullptr);
  CHECK(*exclusion.aside(7) == "its commits were refused");
  CHECK(exclusion.aside(8) == nullptr);
}

TEST_CASE("exclusion: refused commits add up over incarnations, and the worst shard counts") {
  Exclusion exclusion(std::nullopt);
  CHECK_FALSE(exclusion.watches());
  CHECK(exclusion.watch() == nullptr);
  exclusion.count_refused(0, standing(kZero, {1, 2, 0, 0}));
  exclusion.count_refused(0, standing(kZero, {3, 2, 0, 0}));
  CHECK(exclusion.refused(kZero) == RefusedByReason{3, 2, 0, 0});
  exclusion.count_refused(0, standing(kZero, {1, 0, 0, 0}));  // a later incarnation
  CHECK(exclusion.refused(kZero) == RefusedByReason{4, 2, 0, 0});
  exclusion.count_refused(1, standing(kZero, {0, 5, 1, 0}));
  CHECK(exclusion.refused(kZero) == RefusedByReason{4, 5, 1, 0});
  CHECK(exclusion.refused(kOne) == RefusedByReason{});
}

}  // namespace
}  // namespace rubato::scheduler::exclusion_tests
