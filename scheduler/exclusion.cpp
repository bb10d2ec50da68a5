#include "scheduler/exclusion.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace rubato::scheduler {
namespace {

// A worker that was left out comes back after as long as others waited for it; the second time
// after twice, and later after four times as long. A link that is healed is used soon, and others
// train for most of the time, whatever one worker does.
constexpr double kAwayFactorMax = 4;
// Strangers that did not stall for so long are met as at the beginning.
constexpr Duration kForgivenAfter = Duration::from_seconds(3600);

}  // namespace

Exclusion::Exclusion(const std::optional<WatchOptions>& watch) : options_(watch) {
  if (watch) watch_.emplace(*watch);
}

void Exclusion::on_start(Instant now, WorkerId worker, const std::string& name, bool stranger) {
  if (!watch_) return;
  const auto known = stalls_.find(name);
  std::optional<Duration> first;
  if (known != stalls_.end())
    first = known->second.first;
  else if (stranger && strangers_.count > 0)
    first = strangers_.first;
  watch_->on_start(now, worker, first);
}

void Exclusion::count_refused(std::uint32_t server, const proto::Standing& standing) {
  auto& [all, last] = refused_[standing.worker][server];
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t now_refused = standing.refused[i];
    all[i] = proto::sum_of(all[i], now_refused < last[i] ? now_refused : now_refused - last[i]);
  }
  last = standing.refused;
}

RefusedByReason Exclusion::refused(WorkerId worker) const {
  RefusedByReason refused{};
  const auto known = refused_.find(worker);
  if (known == refused_.end()) return refused;
  for (const auto& [server, refusals] : known->second)
    for (std::size_t i = 0; i < refused.size(); ++i)
      refused[i] = std::max(refused[i], refusals.all[i]);
  return refused;
}

void Exclusion::on_stalled(Instant now, const std::string& name,
                           const WorkerWatch::Verdict& verdict, bool unlisted) {
  RUBATO_CHECK(options_, "whoever is judged is watched");
  stall(now, stalls_[name], verdict);
  if (!unlisted) return;
  if (now - strangers_.until > kForgivenAfter) strangers_ = {};
  stall(now, strangers_, verdict);
}

void Exclusion::stall(Instant now, Stall& stall, const WorkerWatch::Verdict& verdict) const {
  ++stall.count;
  stall.until = now + verdict.waited * std::min(std::exp2(stall.count - 1), kAwayFactorMax);
  stall.first = std::min(verdict.allowed, options_->stalled);
}

bool Exclusion::may_come_back(Instant now, const std::string& name) const {
  return now >= stalls_.at(name).until;
}

// The first time, only the process itself waits: one that was started again may be sound.
bool Exclusion::keeps_waiting(Instant now, const std::string& name, bool went_on,
                              bool stranger) const {
  if (stranger && now < strangers_.until) return true;
  const auto stall = stalls_.find(name);
  return stall != stalls_.end() && now < stall->second.until &&
         (stall->second.count > 1 || went_on);
}

void Exclusion::set_aside(Incarnation incarnation, std::string why) {
  aside_[incarnation] = std::move(why);
}

const std::string* Exclusion::aside(Incarnation incarnation) const {
  const auto known = aside_.find(incarnation);
  return known == aside_.end() ? nullptr : &known->second;
}

}  // namespace rubato::scheduler
