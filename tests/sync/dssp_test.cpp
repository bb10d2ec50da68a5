// DSSP: golden traces worked out by hand from arXiv 1908.11848, Alg. 1 and 2, and its claims.
#include <doctest/doctest.h>

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

}  // namespace rubato::sync
