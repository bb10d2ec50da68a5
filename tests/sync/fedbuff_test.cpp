// FedBuff's gate: who is collected with what weight, when the mean is applied, and that nobody
// waits.
#include "sync/fedbuff.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("FedBuff: K commits make a mean, each is answered at once, stale ones weigh less") {
  FedBuffGate gate({.buffer = 3, .staleness_exponent = 0.5});
  const std::string trace = R"(
join 0 1 2
commit 0 -> collect 0 x 1; release 0
commit 0 -> collect 0 x 1; release 0
commit 1 -> collect 1 x 1; flush; release 1
commit 1 -> collect 1 x 1; release 1
commit 2 -> collect 2 x 0.7071; release 2
commit 0 -> collect 0 x 0.7071; flush; release 0
commit 2 -> collect 2 x 0.7071; release 2
)";
  CHECK(replay_gate(gate, trace) == trace);
}

TEST_CASE("FedBuff: a leaver's commits count, a joiner is not stale, K above m holds up nobody") {
  FedBuffGate gate({.buffer = 4, .staleness_exponent = 1});
  const std::string trace = R"(
join 0 1
commit 0 -> collect 0 x 1; release 0
commit 1 -> collect 1 x 1; release 1
leave 1
commit 0 -> collect 0 x 1; release 0
commit 0 -> collect 0 x 1; flush; release 0
join 2
commit 2 -> collect 2 x 1; release 2
commit 0 -> collect 0 x 1; release 0
)";
  CHECK(replay_gate(gate, trace) == trace);
}

// arXiv 2106.06639, Sec. 5: s(tau) = (1 + tau)^-a.
TEST_CASE("FedBuff: the weight falls with the means applied since the worker was answered") {
  FedBuffGate gate({.buffer = 1, .staleness_exponent = 0.5});
  gate.on_join({}, {0});
  gate.on_join({}, {1});
  for (int means = 0; means < 20; ++means) {
    const auto fast = gate.on_commit({}, {0});
    REQUIRE(fast.collect.size() == 1);
    CHECK(fast.collect[0].weight == 1);
    CHECK(fast.flush);
  }
  const auto slow = gate.on_commit({}, {1});
  REQUIRE(slow.collect.size() == 1);
  CHECK(slow.collect[0].weight == doctest::Approx(1 / std::sqrt(21.0)));
}

}  // namespace rubato::sync
