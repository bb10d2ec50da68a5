// DSSP: golden traces worked out by hand from arXiv 1908.11848, Alg. 1 and 2, and its claims.
#include <doctest/doctest.h>

#include <cmath>

#include "base/rng.hpp"
#include "sync/dssp.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("DSSP without credits is SSP") {
  DsspGate gate({.staleness = 1, .credits = 0});
  const std::string trace = R"(
join 0 1
at 1 commit 0 -> apply 0; release 0
at 2 commit 0 -> apply 0
at 3 commit 1 -> apply 1; release 1 0
)";
  CHECK(replay_gate(gate, trace) == trace);
}

// Worker 0 commits each second, worker 1 every 5; nothing is known of worker 1's pace before 5.5.
// At 6.5 worker 0 is three ahead, its last interval is 2.5 and the slowest's next commits are due
// at 10.5, 15.5, ...: r = 2 ends at 11.5 (1.0 away), r = 1 at 9 (1.5 away). So two credits, one
// spent at once, the other at 7.5. At 8.5 its interval is 1 and r = 2 meets 10.5 exactly; 9.5
// spends the last credit, s_L + r_max = 6 commits ahead.
TEST_CASE("DSSP: the fastest takes the credits that end its run nearest a commit of the slowest") {
  DsspGate gate({.staleness = 2, .credits = 4});
  const std::string trace = R"(
join 0 1
at 0.5 commit 1 -> apply 1; release 1
at 1 commit 0 -> apply 0; release 0
at 2 commit 0 -> apply 0; release 0
at 3 commit 0 -> apply 0; release 0
at 4 commit 0 -> apply 0
at 5.5 commit 1 -> apply 1; release 1 0
at 6.5 commit 0 -> apply 0; release 0
at 7.5 commit 0 -> apply 0; release 0
at 8.5 commit 0 -> apply 0; release 0
at 9.5 commit 0 -> apply 0; release 0
at 10.5 commit 1 -> apply 1; release 1
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("DSSP: who is neither the fastest nor within the bound waits for the bound") {
  DsspGate gate({.staleness = 0, .credits = 4});
  const std::string trace = R"(
join 0 1 2
at 1 commit 2 -> apply 2
at 2 commit 1 -> apply 1
at 3 commit 0 -> apply 0; release 0 1 2
at 4 commit 0 -> apply 0
at 5 leave 1
at 6 leave 2 -> release 0
)";
  CHECK(replay_gate(gate, trace) == trace);
}

namespace {

// Seconds of the last commits, of the slowest and of the fastest, which is just beyond the bound.
struct Run {
  double slow_before, slow_last, fast_before, fast_last;
};

// Returns: the commits that the fastest may make at once.
int granted(const Run& run, int credits) {
  DsspGate gate({.staleness = 2, .credits = credits});
  for (const std::uint32_t id : {0u, 1u}) gate.on_join({}, {id});
  gate.on_commit(at_seconds(run.slow_before), {1});
  gate.on_commit(at_seconds(run.slow_last), {1});
  for (int i = 0; i < 4; ++i) gate.on_commit(at_seconds(run.fast_before), {0});
  for (int count = 0;; ++count)
    if (gate.on_commit(at_seconds(run.fast_last), {0}).release.empty()) return count;
}

// Alg. 2 as it is written.
int nearest(const Run& run, int credits) {
  int best = 0;
  double least = 1e18;
  for (int r = 0; r <= credits; ++r)
    for (int k = 0; k <= credits; ++k) {
      const double ours = run.fast_last + r * (run.fast_last - run.fast_before);
      const double theirs = run.slow_last + (k + 1) * (run.slow_last - run.slow_before);
      if (std::abs(ours - theirs) < least) {
        least = std::abs(ours - theirs);
        best = r;
      }
    }
  return best;
}

}  // namespace

TEST_CASE("DSSP: credits are those that bring any two predicted commits nearest") {
  Rng rng(4);
  for (int round = 0; round < 500; ++round) {
    Run run{.slow_before = 1, .slow_last = 0, .fast_before = 0, .fast_last = 0};
    // Whole seconds, so that ties are ties.
    run.slow_last = run.slow_before + static_cast<double>(rng.below(60));
    run.fast_before = run.slow_last + static_cast<double>(rng.below(60));
    run.fast_last = run.fast_before + 1 + static_cast<double>(rng.below(30));
    const int credits = static_cast<int>(rng.below(20));
    CAPTURE(round);
    CHECK(granted(run, credits) == nearest(run, credits));
  }
}

TEST_CASE("DSSP: years between two commits times the most credits is no overflow") {
  CHECK(granted({.slow_before = 0, .slow_last = 1, .fast_before = 2, .fast_last = 1e8}, 1000) == 0);
  CHECK(granted({.slow_before = 0, .slow_last = 1e8, .fast_before = 1e8, .fast_last = 1e8 + 1},
                1000) == 1000);
}

}  // namespace rubato::sync
