// m-sync: what a round holds, and that stragglers cost it nothing.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("m-sync: a round ends with its first m' commits, and a late commit is dropped") {
  const auto gate = gate_of("m-sync", "commits = 2");
  const std::string trace = R"(
join 0 1 2
commit 1 -> collect 1 x 1
commit 0 -> collect 0 x 1; flush; release 0 1
commit 1 -> collect 1 x 1
commit 2 -> release 2
commit 2 -> collect 2 x 1; flush; release 1 2
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

TEST_CASE(
    "m-sync: unless told, all but one make a round, and so do fewer when nobody else is left") {
  const auto gate = gate_of("m-sync");
  const std::string trace = R"(
join 0 1 2
commit 2 -> collect 2 x 1
commit 1 -> collect 1 x 1; flush; release 1 2
commit 1 -> collect 1 x 1
leave 2 -> flush; release 1
commit 1 -> collect 1 x 1; flush; release 1
commit 0 -> release 0
leave 1
commit 0 -> collect 0 x 1; flush; release 0
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

// Chen et al. 2016, Sec. 3: backup workers hide the tail.
TEST_CASE("m-sync: any number of rounds lasts as long as the steps of the m'-th fastest worker") {
  CHECK(rc::check("rounds", [] {
    auto steps = *rc::gen::container<std::vector<std::int64_t>>(
        rc::gen::inRange<std::int64_t>(1, 1'000'000));
    steps.push_back(7);
    const auto commits = *rc::gen::inRange<std::size_t>(1, steps.size() + 1);
    const auto gate = gate_of("m-sync", fmt::format("commits = {}", commits));
    SteadyWorkers workers(*gate, steps);
    std::ranges::sort(steps);
    for (std::int64_t round = 1; round <= 30; ++round)
      RC_ASSERT(workers.next_update() == round * steps[commits - 1]);
  }));
}

}  // namespace rubato::sync
