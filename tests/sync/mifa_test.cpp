// MIFA's gate: whose update is remembered in a round, and who takes the place of a worker that
// left.
#include <doctest/doctest.h>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("MIFA: a round is remembered as a whole, and a worker that left counts on") {
  const auto gate = gate_of("mifa");
  const std::string trace = R"(
join 0 1 2
commit 2
commit 0
commit 1 -> remember 0 1 2; memory as mean; release 0 1 2
commit 0
commit 2
leave 1 -> remember 0 2; memory as mean; release 0 2
commit 0
commit 2 -> remember 0 2; memory as mean; release 0 2
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

TEST_CASE("MIFA: joiners take the places of workers that left, the first one first") {
  const auto gate = gate_of("mifa");
  const std::string trace = R"(
join 0 1 2
commit 0
commit 1
commit 2 -> remember 0 1 2; memory as mean; release 0 1 2
leave 2
leave 1
commit 0 -> remember 0; memory as mean; release 0
join 3
commit 0
commit 3 -> forget 2; remember 0 3; memory as mean; release 0 3
join 4 5
commit 5
commit 4
commit 3
commit 0 -> forget 1; remember 0 3 4 5; memory as mean; release 0 3 4 5
commit 0
commit 3
commit 4
commit 5 -> remember 0 3 4 5; memory as mean; release 0 3 4 5
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

}  // namespace rubato::sync
