// The phases of a run: which may follow which, and what a run knows in each of them.
#include "scheduler/run_phase.hpp"

#include <doctest/doctest.h>

#include <array>

namespace rubato::scheduler::run_phase_tests {
namespace {

constexpr std::array kPhases{RunPhase::Gathering, RunPhase::Training, RunPhase::LastCommits,
                             RunPhase::LastPull,  RunPhase::LastSave, RunPhase::ServersEnd,
                             RunPhase::Over};

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

TEST_CASE("run: each phase follows the one before, and the end may begin in any") {
  for (std::size_t before = 0; before < kPhases.size(); ++before)
    for (std::size_t next = 0; next < kPhases.size(); ++next) {
      const bool follows = next == before + 1 || kPhases[next] == RunPhase::LastCommits;
      CAPTURE(before);
      CAPTURE(next);
      CHECK(may_follow(kPhases[before], kPhases[next]) == follows);
    }
}

TEST_CASE("run: it trains, ends step by step, and is over") {
  Run run;
  CHECK(run.gathering());
  CHECK_FALSE(run.started());
  CHECK(run.seconds(at(9)) == 0);
  CHECK_FALSE(run.until());

  run.start(at(10));
  CHECK(run.training());
  CHECK(run.seconds(at(12)) == 2);
  CHECK(run.length(at(12)) == 2);
  CHECK_FALSE(run.stop_reason());

  run.stop(at(15), "loss reached", false, at(25));
  CHECK(run.stopped());
  CHECK_FALSE(run.training());
  CHECK_FALSE(run.over());
  CHECK(run.stop_reason() == "loss reached");
  CHECK(run.length(at(99)) == 5);
  CHECK(run.until() == at(25));
  CHECK_FALSE(run.waited_enough(at(24)));
  CHECK(run.waited_enough(at(25)));

  run.end_step(RunPhase::LastPull, at(300));
  run.hurry(at(20));
  CHECK(run.waited_enough(at(20)));
  run.end_step(RunPhase::LastSave, at(25));
  run.end_step(RunPhase::ServersEnd, at(30));
  run.end_step(RunPhase::Over, at(30));
  CHECK(run.over());
  CHECK(run.stopped());
  CHECK_FALSE(run.until());
}

TEST_CASE("run: it may end before it trains, and another process begins the end again") {
  Run run;
  run.stop(at(3), "interrupted", true, at(13));
  CHECK_FALSE(run.gathering());
  CHECK_FALSE(run.started());
  CHECK(run.failed());
  CHECK(run.length(at(50)) == 0);
  run.end_step(RunPhase::LastPull, at(13));
  run.stop_again(at(60));
  CHECK(run.phase() == RunPhase::LastCommits);
  CHECK(run.until() == at(60));
  CHECK(run.stop_reason() == "interrupted");
}

}  // namespace
}  // namespace rubato::scheduler::run_phase_tests
