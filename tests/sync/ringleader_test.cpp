// Ringleader's gate: the phases of a cycle, and the bound of delays.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("Ringleader: gather from all, one update for each, the rest counts in the next cycle") {
  const auto gate = gate_of("ringleader");
  const std::string trace = R"(
join 0 1 2
commit 0 -> remember 0; release 0
commit 0 -> remember 0 x 0.5; release 0
commit 1 -> remember 1; release 1
commit 2 -> remember 2; memory as commit; release 2
commit 2 -> later 2; release 2
commit 0 -> remember 0 x 0.3333; memory as commit; release 0
commit 0 -> later 0; release 0
commit 0 -> later 0 x 0.5; release 0
commit 1 -> remember 1 x 0.5; memory as commit; turn; release 1
commit 0 -> remember 0 x 0.3333; release 0
commit 1 -> remember 1; memory as commit; release 1
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

TEST_CASE(
    "Ringleader: a cycle does not wait for a worker that left, and waits for one that joined") {
  const auto gate = gate_of("ringleader");
  const std::string trace = R"(
join 0 1
commit 0 -> remember 0; release 0
join 2
commit 1 -> remember 1; release 1
commit 2 -> remember 2; memory as commit; release 2
join 3
commit 3 -> later 3; release 3
commit 1 -> remember 1 x 0.5; memory as commit; release 1
leave 0 -> forget 0; turn
leave 3 -> forget 3
commit 2 -> remember 2; release 2
commit 1 -> remember 1; memory as commit; release 1
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

// arXiv 2509.22860: a cycle of m updates has one for each worker, and what is in the mean is at
// most 2m - 2 updates old.
TEST_CASE("Ringleader: each worker has one update a cycle, and no commit is older than 2m - 2") {
  CHECK(rc::check("cycles", [] {
    const auto m = *rc::gen::inRange<std::size_t>(1, 8);
    const auto gate = gate_of("ringleader");
    std::vector<std::int64_t> steps;
    for (std::size_t i = 0; i < m; ++i) {
      steps.push_back(*rc::gen::inRange<std::int64_t>(1, 300));
      gate->on_join({}, {static_cast<std::uint32_t>(i)});
    }
    std::vector<std::int64_t> ends = steps;
    std::uint64_t updates = 0;
    std::vector<std::uint64_t> began(m, 0);                // the updates at each worker's answer
    std::map<std::uint32_t, std::uint64_t> oldest, later;  // the oldest commit in each mean
    std::multiset<std::uint32_t> cycle;
    for (int commits = 0; commits < 600; ++commits) {
      const auto next = std::ranges::min_element(ends);
      const auto id = static_cast<std::uint32_t>(next - ends.begin());
      const GateActions actions = gate->on_commit(Instant{*next}, {id});
      *next += steps[id];
      RC_ASSERT(actions.release == std::vector<WorkerId>{{id}});
      (actions.remember.front().later ? later : oldest).try_emplace(id, began[id]);
      if (actions.memory == GateActions::Memory::ApplyAsCommit) {
        RC_ASSERT(oldest.size() == m);
        for (const auto& [worker, since] : oldest) RC_ASSERT(updates - since <= 2 * m - 2);
        ++updates;
        cycle.insert(id);
      }
      began[id] = updates;
      if (!actions.turn) continue;
      for (std::uint32_t worker = 0; worker < m; ++worker) RC_ASSERT(cycle.count(worker) == 1);
      cycle.clear();
      oldest = std::exchange(later, {});
    }
    RC_ASSERT(updates > 0);
  }));
}

}  // namespace rubato::sync
