#include "sync/sync_switch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

constexpr int kWindows = 3;  // slow in so many in a row: a straggler
// And slower than the mean by at least so much. Where all but one are equal, that one is below
// mean - deviation however little it lags: one that recovers would never be done, and where speeds
// jitter a little, somebody is always below.
constexpr double kNoticeable = 0.1;

// Whether `next` begins the rounds of somebody elsewhere.
bool other_rounds(const Phase& phase, const Phase& next) {
  return std::ranges::any_of(next.apart, [&](const auto& entry) {
    const auto before = phase.apart.find(entry.first);
    return entry.second.from != (before == phase.apart.end() ? 0 : before->second.from);
  });
}

}  // namespace

// --- gate ----------------------------------------------------------------------------------------

void SyncSwitchGate::on_join(Instant, WorkerId worker) {
  Member member;
  member.round = slowest().value_or(0);
  RUBATO_CHECK(members_.emplace(worker, member).second, "a worker joins once");
}

GateActions SyncSwitchGate::on_leave(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
  return let_go();
}

GateActions SyncSwitchGate::on_commit(Instant, WorkerId worker) {
  const auto it = members_.find(worker);
  RUBATO_CHECK(it != members_.end(), "only members commit");
  Member& member = it->second;
  RUBATO_CHECK(!member.held, "one commit of a worker is outstanding");
  ++member.commits;
  ++member.round;
  member.held = true;
  return let_go();
}

GateActions SyncSwitchGate::on_phase(Instant, const Phase& phase) {
  if (phase == phase_) return {};
  const bool new_rounds = phase.number != phase_.number || other_rounds(phase_, phase);
  phase_ = phase;
  std::set<WorkerId> newcomers;  // the tuner did not know them yet
  for (auto& [worker, member] : members_) {
    const auto apart = phase.apart.find(worker);
    const bool known = apart != phase.apart.end();
    member.excluded = known && apart->second.excluded;
    if (known && apart->second.from > 0) {
      member.round = member.commits - static_cast<std::int64_t>(apart->second.from);
    } else if (new_rounds) {
      newcomers.insert(worker);
    }
  }
  join_slowest(newcomers);
  return let_go();
}

void SyncSwitchGate::join_slowest(const std::set<WorkerId>& newcomers) {
  std::optional<std::int64_t> least;
  for (const auto& [worker, member] : members_)
    if (!newcomers.contains(worker)) least = std::min(least.value_or(member.round), member.round);
  for (const WorkerId worker : newcomers) members_.at(worker).round = least.value_or(0);
}

std::optional<std::int64_t> SyncSwitchGate::slowest() const {
  std::optional<std::int64_t> least;
  for (const auto& [worker, member] : members_)
    if (!member.excluded) least = std::min(least.value_or(member.round), member.round);
  return least;
}

GateActions SyncSwitchGate::let_go() {
  const bool asp = phase_.number == static_cast<std::uint32_t>(SwitchPhase::Asp);
  const auto least = slowest();
  GateActions actions;
  for (auto& [worker, member] : members_) {
    if (!member.held) continue;
    const bool in_round =
        !member.excluded && least && member.round <= std::max<std::int64_t>(*least, 0);
    if (!asp && !in_round) continue;
    member.held = false;
    actions.apply.push_back(worker);
  }
  actions.release = actions.apply;
  return actions;
}

// --- tuner ---------------------------------------------------------------------------------------

SyncSwitchTuner::SyncSwitchTuner(const SyncSwitchOptions& options, double batches)
    : options_(options), quota_(options.fraction * options.epochs * batches) {
  RUBATO_CHECK(batches > 0, "the workers have data");
}

void SyncSwitchTuner::on_start(Instant now) {
  if (options_.straggler != StragglerPolicy::None) next_window_ = now + options_.window;
  decide({.at = now,
          .quantity = "phase",
          .value = 0,
          .reason = fmt::format("BSP for {:.0f} steps, {:g} of {:g} epochs", std::ceil(quota_),
                                options_.fraction, options_.epochs)});
}

void SyncSwitchTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  slow_windows_.erase(worker);
  const bool straggled = stragglers_.erase(worker) == 1;
  if ((take_all_back() || straggled) && !switched_) react(now);
}

void SyncSwitchTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  const std::uint64_t before = members().at(worker).steps;
  QueuedTuner::on_progress(now, worker, progress);
  if (switched_) return;
  if (now_in_ == SwitchPhase::Bsp && progress.steps > before)
    steps_ += static_cast<double>(progress.steps - before);
  if (steps_ < quota_) return;
  switched_ = true;
  next_window_.reset();
  stragglers_.clear();
  enter(now, SwitchPhase::Asp, fmt::format("{:.0f} steps under BSP: ASP from now on", steps_));
}

void SyncSwitchTuner::on_wakeup(Instant now) {
  if (!next_window_ || now < *next_window_) return;
  while (*next_window_ <= now) next_window_ = *next_window_ + options_.window;
  const auto before = stragglers_;
  find_stragglers();
  take_all_back();
  if (stragglers_ != before) react(now);
}

// Rounds of nobody would never close. Those who were left out are far behind: all begin anew.
bool SyncSwitchTuner::take_all_back() {
  if (options_.straggler != StragglerPolicy::Elastic || stragglers_.empty()) return false;
  if (stragglers_.size() < members().size()) return false;
  stragglers_.clear();
  slow_windows_.clear();
  begin_rounds();
  return true;
}

void SyncSwitchTuner::begin_rounds() {
  for (const auto& [worker, progress] : members()) rounds_from_[worker] = progress.commits + 1;
}

void SyncSwitchTuner::find_stragglers() {
  if (!all_timed()) return;
  double sum = 0, squares = 0;
  for (const auto& [worker, progress] : members()) {
    const double speed = 1 / progress.step_time.seconds();
    sum += speed;
    squares += speed * speed;
  }
  const auto m = static_cast<double>(members().size());
  const double mean = sum / m;
  const double deviation = std::sqrt(std::max(0.0, squares / m - mean * mean));
  const double limit = std::min(mean - deviation, mean * (1 - kNoticeable));
  for (const auto& [worker, progress] : members()) {
    const bool slow = 1 / progress.step_time.seconds() < limit;
    int& windows = slow_windows_[worker];
    windows = slow ? windows + 1 : 0;
    if (windows >= kWindows) stragglers_.insert(worker);
    if (windows == 0 && options_.straggler == StragglerPolicy::Greedy) stragglers_.erase(worker);
  }
}

void SyncSwitchTuner::react(Instant now) {
  std::string names;
  for (const WorkerId worker : stragglers_) names += fmt::format(" {}", worker.value);
  if (options_.straggler == StragglerPolicy::Elastic) {
    enter(now, SwitchPhase::Bsp,
          fmt::format("rounds without worker{}", names.empty() ? " none" : names));
  } else if (stragglers_.empty()) {
    enter(now, SwitchPhase::Bsp, "no straggler is left: BSP again");
  } else {
    enter(now, SwitchPhase::Asp, fmt::format("worker{} straggles: ASP meanwhile", names));
  }
}

void SyncSwitchTuner::enter(Instant now, SwitchPhase phase, std::string reason) {
  Phase next{.number = static_cast<std::uint32_t>(phase)};
  if (phase == SwitchPhase::Bsp && now_in_ == SwitchPhase::Asp) begin_rounds();
  if (phase == SwitchPhase::Bsp) {
    for (const auto& [worker, from] : rounds_from_) next.apart[worker].from = from;
    if (options_.straggler == StragglerPolicy::Elastic)
      for (const WorkerId worker : stragglers_) next.apart[worker].excluded = true;
  }
  now_in_ = phase;
  set_phase(std::move(next));
  decide({.at = now,
          .quantity = "phase",
          .value = static_cast<double>(phase),
          .reason = std::move(reason)});
}

namespace rows {
Model sync_switch();
}

Model rows::sync_switch() {
  return {
      .info = {.name = "sync-switch",
               .title = "Sync-Switch",
               .summary = "BSP at first, then ASP",
               .source = "Li et al., ICDCS 2021"},
      .options =
          {option<&SyncSwitchOptions::fraction>(
               "fraction", "part of the planned steps that are made under BSP", kBetweenZeroAndOne),
           option<&SyncSwitchOptions::epochs>(
               "epochs", "passes over the data that training is planned to take", Limits::above(0)),
           choice<&SyncSwitchOptions::straggler>(
               "straggler", "what happens to stragglers under BSP", "none | greedy | elastic"),
           option<&SyncSwitchOptions::window>("window_seconds",
                                              "how often speeds are compared to find stragglers",
                                              Limits::seconds())},
      .gate = [](const Options&) -> std::unique_ptr<Gate> {
        return std::make_unique<SyncSwitchGate>();
      },
      .tuner = [](const Options& o, const RunFacts& f) -> std::unique_ptr<Tuner> {
        return std::make_unique<SyncSwitchTuner>(o.of<SyncSwitchOptions>(), f.batches);
      },
      .lack = [](const Options&, std::uint64_t samples) -> std::optional<Lack> {
        if (samples > 0) return std::nullopt;
        return Lack{"dataset.samples",
                    "data to count; say how many samples sync-switch passes over"};
      }};
}

}  // namespace rubato::sync
