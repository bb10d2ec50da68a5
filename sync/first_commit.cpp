#include "sync/first_commit.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.hpp"

namespace rubato::sync {
namespace {

// The end of the step after which a worker commits for the first time, if that is within `limit`.
std::optional<Instant> first_ask(CommitRule& rule, const Directive& directive, Duration step,
                                 Duration limit) {
  rule.on_start({}, true);
  rule.on_directive({}, directive);
  for (Instant now = Instant{} + step; now <= Instant{} + limit; now = now + step)
    if (rule.on_step_end(now)) return now;
  return std::nullopt;
}

}  // namespace

std::optional<Duration> first_commit(std::string_view model, const Options& options,
                                     const RunFacts& facts, const std::vector<Duration>& steps,
                                     Duration limit) {
  RUBATO_CHECK(!steps.empty() && std::ranges::min(steps) > Duration{}, "a step takes some time");
  const auto tuner = make_tuner(model, options, facts);
  const auto gate = make_gate(model, options);
  std::vector<Directive> directives(steps.size());
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (tuner) tuner->on_join({}, WorkerId{i});
    gate->on_join({}, WorkerId{i});
  }
  if (tuner) {
    tuner->on_start({});
    while (const auto order = tuner->poll_order())
      directives.at(order->worker.value) = order->directive;
    gate->on_phase({}, tuner->phase());
  }

  // Workers alike are asked once: a cluster may have thousands.
  using Alike = std::tuple<Duration, double, std::uint32_t, Duration>;
  std::map<Alike, std::optional<Instant>> asked;
  std::vector<std::pair<Instant, std::uint32_t>> asks;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    const Directive& told = directives[i];
    const Alike alike{steps[i], told.commit_rate, told.local_steps, told.period};
    auto known = asked.find(alike);
    if (known == asked.end()) {
      const auto rule = make_commit_rule(model, options);
      known = asked.emplace(alike, first_ask(*rule, told, steps[i], limit)).first;
    }
    if (known->second) asks.emplace_back(*known->second, i);
  }
  std::ranges::sort(asks);
  for (const auto& [now, worker] : asks)
    if (gate->streams() || !gate->on_commit(now, WorkerId{worker}).release.empty())
      return now - Instant{};
  // All wait for something that this does not play, which is no reason to expect nothing.
  if (asks.size() == steps.size()) return asks.back().first - Instant{};
  return std::nullopt;
}

}  // namespace rubato::sync
