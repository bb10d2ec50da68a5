// Ringmaster: which commits are applied, and that R updates take no longer than its lemma says.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("Ringmaster: a commit of delay R or more is dropped, and its worker starts again") {
  const auto gate = gate_of("ringmaster", "delay = 2");
  const std::string trace = R"(
join 0 1 2
commit 0 -> apply 0; release 0
commit 1 -> apply 1; release 1
commit 2 -> release 2
commit 2 -> apply 2; release 2
commit 0 -> release 0
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

TEST_CASE("Ringmaster: unless told, R is the number of workers: equal ones lose nothing") {
  const auto gate = gate_of("ringmaster");
  const std::string trace = R"(
join 0 1
commit 0 -> apply 0; release 0
commit 1 -> apply 1; release 1
commit 0 -> apply 0; release 0
commit 0 -> apply 0; release 0
commit 1 -> release 1
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

// arXiv 2501.16168, Lemma 4.1: 2 min over j of H_j (1 + R/j), H_j the harmonic mean of the j
// shortest step times. It holds for any R updates in a row.
TEST_CASE("Ringmaster: R updates take no longer than the lemma says") {
  CHECK(rc::check("lemma 4.1", [] {
    auto steps = *rc::gen::container<std::vector<std::int64_t>>(
        rc::gen::inRange<std::int64_t>(1, 1'000'000));
    steps.push_back(*rc::gen::inRange<std::int64_t>(1, 1'000'000));
    const auto r = *rc::gen::inRange<std::size_t>(1, 30);
    const auto gate = gate_of("ringmaster", fmt::format("delay = {}", r));
    SteadyWorkers workers(*gate, steps);
    std::ranges::sort(steps);
    double bound = std::numeric_limits<double>::infinity();
    double speeds = 0;
    for (std::size_t j = 1; j <= steps.size(); ++j) {
      speeds += 1 / static_cast<double>(steps[j - 1]);
      const auto n = static_cast<double>(j);
      bound = std::min(bound, 2 * (n / speeds) * (1 + static_cast<double>(r) / n));
    }
    std::vector<std::int64_t> at = {0};
    for (std::size_t update = 1; update <= 5 * r; ++update) {
      at.push_back(workers.next_update());
      if (update < r) continue;
      RC_ASSERT(static_cast<double>(at[update] - at[update - r]) <= bound * (1 + 1e-9));
    }
  }));
}

}  // namespace rubato::sync
