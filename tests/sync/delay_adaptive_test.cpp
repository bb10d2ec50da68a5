// Delay-adaptive ASGD: what a commit of each delay counts.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/sync/steady_workers.hpp"

namespace rubato::sync {
namespace {

// Of a commit that comes after so many updates by worker 0, which alone has delay 0.
double weight_after_updates(Gate& gate, WorkerId worker, int updates) {
  for (int i = 0; i < updates; ++i) {
    const GateActions actions = gate.on_commit({}, {0});
    CHECK(actions.weight == 1);
    CHECK(actions.apply == std::vector<WorkerId>{{0}});
    CHECK(actions.release == actions.apply);
  }
  const GateActions actions = gate.on_commit({}, worker);
  CHECK(actions.apply == std::vector<WorkerId>{worker});
  CHECK(actions.release == actions.apply);
  return actions.weight;
}

}  // namespace

TEST_CASE("delay-adaptive: a commit of delay d counts 1 up to c, then c/d") {
  const auto gate = gate_of("delay-adaptive", "delay = 4");
  for (std::uint32_t id = 0; id < 3; ++id) gate->on_join({}, {id});
  CHECK(weight_after_updates(*gate, {1}, 3) == 1);
  CHECK(weight_after_updates(*gate, {1}, 4) == 1);
  CHECK(weight_after_updates(*gate, {1}, 5) == doctest::Approx(4.0 / 5));
  CHECK(weight_after_updates(*gate, {1}, 100) == doctest::Approx(0.04));
  CHECK(weight_after_updates(*gate, {1}, 0) == 1);  // the delay counts from its last answer
}

TEST_CASE("delay-adaptive: c is the number of workers") {
  const auto gate = gate_of("delay-adaptive");
  for (std::uint32_t id = 0; id < 3; ++id) gate->on_join({}, {id});
  CHECK(weight_after_updates(*gate, {1}, 3) == 1);
  CHECK(weight_after_updates(*gate, {2}, 5) == doctest::Approx(3.0 / 9));  // 3 + 1 + 5 updates
  gate->on_leave({}, {1});
  CHECK(weight_after_updates(*gate, {2}, 4) == doctest::Approx(2.0 / 4));
}

// Koloskova et al. 2022, Sec. 4: the rate follows from the number of workers, not from the largest
// delay.
TEST_CASE("delay-adaptive: with a worker a hundred times slower, the others' commits count whole") {
  const auto gate = gate_of("delay-adaptive");
  std::vector<std::int64_t> ends{1, 1, 100};
  for (std::uint32_t id = 0; id < 3; ++id) gate->on_join({}, {id});
  double whole = 0, all = 0, slow = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto next = std::ranges::min_element(ends);
    const auto id = static_cast<std::uint32_t>(next - ends.begin());
    const GateActions actions = gate->on_commit(Instant{*next}, {id});
    *next += id == 2 ? 100 : 1;
    ++all;
    whole += actions.weight == 1;
    if (id == 2) slow = std::max(slow, actions.weight);
  }
  CHECK(whole / all > 0.99);
  CHECK(slow == doctest::Approx(3.0 / 200).epsilon(0.02));
}

}  // namespace rubato::sync
