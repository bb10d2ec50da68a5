// Rennala: which gradients make an update, and how long it takes to gather them.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "tests/sync/steady_workers.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("Rennala: S gradients of one point make an update, stale ones are dropped") {
  const auto gate = gate_of("rennala", "gradients = 3");
  const std::string trace = R"(
join 0 1
commit 0 -> collect 0 x 1; release 0
commit 0 -> collect 0 x 1; release 0
commit 0 -> collect 0 x 1; flush; release 0
commit 1 -> release 1
commit 1 -> collect 1 x 1; release 1
commit 0 -> collect 0 x 1; release 0
leave 0
join 2
commit 2 -> collect 2 x 1; flush; release 2
)";
  CHECK(replay_gate(*gate, trace) == trace);
}

// arXiv 2305.12387: the least t with sum over i of floor((t - c_i) / h_i)+ >= S.
TEST_CASE("Rennala: an update takes exactly the time in which S fresh gradients are ready") {
  CHECK(rc::check("gather time", [] {
    auto steps =
        *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 500));
    steps.push_back(*rc::gen::inRange<std::int64_t>(1, 500));
    const auto wanted = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto gate = gate_of("rennala", fmt::format("gradients = {}", wanted));
    SteadyWorkers workers(*gate, steps);
    // When each worker is at the point of this update: after the step that it was in.
    std::vector<std::int64_t> at(steps.size(), 0);
    for (int update = 0; update < 10; ++update) {
      const auto ready = [&](std::int64_t t) {
        std::int64_t gradients = 0;
        for (std::size_t i = 0; i < steps.size(); ++i)
          gradients += std::max<std::int64_t>(0, (t - at[i]) / steps[i]);
        return gradients;
      };
      std::int64_t t = *std::ranges::min_element(at);
      while (ready(t) < wanted) ++t;
      RC_ASSERT(workers.next_update() == t);
      // The last committer is answered with the new point. The others end the step that they are
      // in, or that ends at this instant.
      for (std::size_t i = 0; i < steps.size(); ++i) {
        at[i] = workers.fresh(i) ? t : workers.began()[i] + steps[i];
      }
    }
  }));
}

}  // namespace rubato::sync
