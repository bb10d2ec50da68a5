// FedAsync: how much a commit counts by its delay.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>

#include "tests/sync/steady_workers.hpp"

namespace rubato::sync {

// arXiv 1903.03934: s_a(d) = (1 + d)^-a. Replayed here with a plain counter.
TEST_CASE("FedAsync: each commit is applied and answered at once, with the weight of its delay") {
  CHECK(rc::check("weights", [] {
    const int workers = *rc::gen::inRange(1, 9);
    const double exponent = *rc::gen::elementOf(std::vector<double>{0, 0.5, 1, 2});
    const auto gate = gate_of("fedasync", fmt::format("staleness_exponent = {}", exponent));
    std::vector<int> answered(static_cast<std::size_t>(workers), 0);
    for (std::uint32_t id = 0; id < answered.size(); ++id) gate->on_join({}, {id});
    for (int updates = 0; updates < 50; ++updates) {
      const auto id = static_cast<std::uint32_t>(*rc::gen::inRange(0, workers));
      const GateActions actions = gate->on_commit({}, {id});
      RC_ASSERT(actions.apply == std::vector<WorkerId>{{id}});
      RC_ASSERT(actions.release == actions.apply);
      const double expected = std::pow(1.0 + updates - answered[id], -exponent);
      RC_ASSERT(std::abs(actions.weight - expected) < 1e-12);
      answered[id] = updates + 1;
    }
  }));
}

TEST_CASE("FedAsync: commits are parameters of weight alpha, and workers take the reply") {
  CHECK(elastic_weight("fedasync", {}) == 0.6);
  CHECK(takes_reply("fedasync"));
}

}  // namespace rubato::sync
