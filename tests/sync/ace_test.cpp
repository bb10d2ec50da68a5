// ACE's gate: whose update is remembered, and when it is forgotten.
#include <doctest/doctest.h>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("ACE: a commit takes the place of its worker's last one, who leaves is forgotten") {
  const auto gate = gate_of("ace", "");
  const std::string trace = R"(
join 0 1
commit 0 -> remember 0; memory as commit; release 0
commit 0 -> remember 0; memory as commit; release 0
commit 1 -> remember 1; memory as commit; release 1
leave 0 -> forget 0
commit 1 -> remember 1; memory as commit; release 1
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

TEST_CASE("ACE: max_age forgets an update after so many others") {
  const auto gate = gate_of("ace", "max_age = 2");
  const std::string trace = R"(
join 0 1
commit 0 -> remember 0; memory as commit; release 0
commit 1 -> remember 1; memory as commit; release 1
commit 1 -> remember 1; memory as commit; release 1
commit 1 -> forget 0; remember 1; memory as commit; release 1
commit 1 -> remember 1; memory as commit; release 1
commit 0 -> remember 0; memory as commit; release 0
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

}  // namespace rubato::sync
