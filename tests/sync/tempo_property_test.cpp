// Tempo's bounds hold whatever workers report and whatever losses come.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <vector>

#include "sync/tempo.hpp"

namespace rubato::sync {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("tempo: rates stay within their bounds, whatever comes, and whoever goes") {
  CHECK(rc::check([] {
    const double budget = *rc::gen::element(0.0, 1e5);
    TempoTuner tuner({.bytes_per_second = budget}, 1000);
    const auto workers = *rc::gen::inRange<std::uint32_t>(1, 20);
    for (std::uint32_t i = 0; i < workers; ++i) tuner.on_join({}, {i});
    tuner.on_start({});
    const bool timed = *rc::gen::arbitrary<bool>();  // else all steps count alike
    const auto time = [timed] {
      return Duration{timed ? *rc::gen::element<std::int64_t>(0, 1, 1'000'000, 1'000'000'000) : 0};
    };
    const auto cosine = [] { return 0.01 * *rc::gen::inRange(-100, 101); };
    std::uint32_t gone = 0;
    for (std::uint64_t commit = 1; commit < 60; ++commit) {
      const auto id = *rc::gen::inRange<std::uint32_t>(gone, workers);
      tuner.on_progress({}, {id},
                        {.commits = 3 * commit,
                         .step_time = time(),
                         .overhead = time(),
                         .alignment = {.own = cosine(), .during = cosine()}});
      if (commit % 8 == 0) {
        const std::vector<double> losses = {1e-9, 1, 4, 1e30, kInfinity, kNan};
        tuner.on_evaluation({}, {.at = {},
                                 .loss = *rc::gen::elementOf(losses),
                                 .accuracy = 0,
                                 .gap = *rc::gen::element(-1.0, 0.0, 0.1, 1e9)});
      }
      if (commit % 20 == 0 && gone + 1 < workers) tuner.on_leave({}, {gone++});
      while (const auto order = tuner.poll_order()) {
        const Directive& d = order->directive;
        RC_ASSERT((d.period > Duration{}) == (budget > 0));
        RC_ASSERT(d.local_rate > 0 && d.local_rate <= 1);
        RC_ASSERT(is_quick_steps(d.quick_steps));
        RC_ASSERT(is_weight(d.weight) && d.weight <= std::max(2.0, 0.5 * workers) + 1e-9);
        if (timed) continue;
        const double global = d.weight;
        RC_ASSERT(global >= 1.0 / 32 - 1e-9 && global <= 4 + 1e-9);
        RC_ASSERT(d.local_rate >= std::min(1.0, global) / workers - 1e-9);
      }
      while (tuner.poll_decision()) {
      }
    }
  }));
}

}  // namespace rubato::sync
