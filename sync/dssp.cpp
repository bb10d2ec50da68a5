#include "sync/dssp.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.hpp"

namespace rubato::sync {

DsspGate::DsspGate(const DsspOptions& options)
    : bound_(static_cast<std::uint64_t>(options.staleness)),
      credits_most_(static_cast<std::uint32_t>(options.credits)) {
  RUBATO_CHECK(options.staleness >= 0 && options.credits >= 0, "options are validated before");
}

void DsspGate::on_join(Instant, WorkerId worker) {
  Member member;
  if (!members_.empty()) member.commits = slowest().commits;
  RUBATO_CHECK(members_.emplace(worker, member).second, "a worker joins once");
}

GateActions DsspGate::on_leave(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
  return {.apply = {}, .release = release_ready()};
}

GateActions DsspGate::on_commit(Instant now, WorkerId worker) {
  const auto it = members_.find(worker);
  RUBATO_CHECK(it != members_.end(), "only members commit");
  Member& member = it->second;
  RUBATO_CHECK(!member.held, "one commit of a worker is outstanding");
  ++member.commits;
  if (member.last) member.interval = now - *member.last;
  member.last = now;
  member.held = !may_go(member);
  GateActions actions{.apply = {worker}, .release = release_ready()};
  if (!member.held) actions.release.insert(actions.release.begin(), worker);
  return actions;
}

bool DsspGate::may_go(Member& member) const {
  if (member.credits > 0) {
    --member.credits;
    return true;
  }
  if (member.commits - slowest().commits <= bound_) return true;
  if (member.commits < fastest_commits()) return false;
  const std::uint64_t most = slowest().commits + bound_ + credits_most_ + 1 - member.commits;
  member.credits = std::min(credits_for(member), static_cast<std::uint32_t>(most));
  if (member.credits == 0) return false;
  --member.credits;  // spent by going now: the worker is to be held at A_p + r I_p
  return true;
}

// argmin over r of the distance between our r-th next commit and any of the slowest's next ones.
std::uint32_t DsspGate::credits_for(const Member& fast) const {
  const Member& slow = slowest();
  if (!fast.interval || !slow.interval) return 0;
  std::uint32_t best = 0;
  std::int64_t nearest = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t r = 0; r <= credits_most_; ++r) {
    const std::int64_t ours = fast.last->ns + r * fast.interval->ns;
    for (std::uint32_t k = 0; k <= credits_most_; ++k) {
      const std::int64_t theirs = slow.last->ns + (k + 1) * slow.interval->ns;
      if (const std::int64_t apart = std::abs(ours - theirs); apart < nearest) {
        nearest = apart;
        best = r;
      }
    }
  }
  return best;
}

const DsspGate::Member& DsspGate::slowest() const {
  const auto less = [](const auto& a, const auto& b) {
    return a.second.commits < b.second.commits;
  };
  return std::min_element(members_.begin(), members_.end(), less)->second;
}

std::uint64_t DsspGate::fastest_commits() const {
  std::uint64_t most = 0;
  for (const auto& [worker, member] : members_) most = std::max(most, member.commits);
  return most;
}

std::vector<WorkerId> DsspGate::release_ready() {
  std::vector<WorkerId> ready;
  if (members_.empty()) return ready;
  const std::uint64_t limit = slowest().commits + bound_;
  for (auto& [worker, member] : members_) {
    if (!member.held || member.commits > limit) continue;
    member.held = false;
    ready.push_back(worker);
  }
  return ready;
}

}  // namespace rubato::sync
