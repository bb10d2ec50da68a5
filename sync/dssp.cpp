#include "sync/dssp.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

constexpr std::int64_t kFarthestNs = std::int64_t{1} << 61;  // 73 years ahead are predicted at most

}  // namespace

DsspGate::DsspGate(const DsspOptions& options)
    : bound_(static_cast<std::uint64_t>(options.staleness)),
      credits_most_(static_cast<std::uint32_t>(options.credits)) {
  RUBATO_CHECK(options.staleness >= 0 && options.credits >= 0, "options are validated before");
}

void DsspGate::on_join(Instant, WorkerId worker) {
  Member member;
  if (!members_.empty()) member.commits = slowest().commits;
  RUBATO_CHECK(members_.emplace(worker, member).second, "a worker joins once");
  by_commits_.emplace(member.commits, worker);
}

GateActions DsspGate::on_leave(Instant, WorkerId worker) {
  const auto member = members_.find(worker);
  RUBATO_CHECK(member != members_.end(), "only a member leaves");
  by_commits_.erase({member->second.commits, worker});
  held_.erase({member->second.commits, worker});
  members_.erase(member);
  return {.apply = {}, .release = release_ready()};
}

void DsspGate::on_first_commit(WorkerId worker, std::uint64_t round) {
  Member& member = members_.at(worker);
  if (round > member.commits) set_commits(worker, member, round);
}

void DsspGate::set_commits(WorkerId worker, Member& member, std::uint64_t commits) {
  auto place = by_commits_.extract({member.commits, worker});
  place.value().first = member.commits = commits;
  by_commits_.insert(std::move(place));
}

GateActions DsspGate::on_commit(Instant now, WorkerId worker) {
  const auto it = members_.find(worker);
  RUBATO_CHECK(it != members_.end(), "only members commit");
  Member& member = it->second;
  RUBATO_CHECK(!held_.contains({member.commits, worker}), "one commit of a worker is outstanding");
  set_commits(worker, member, member.commits + 1);
  if (member.last) member.interval = now - *member.last;
  member.last = now;
  const bool goes = may_go(member);
  if (!goes) held_.emplace(member.commits, worker);
  GateActions actions{.apply = {worker}, .release = release_ready()};
  if (goes) actions.release.insert(actions.release.begin(), worker);
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
  const std::int64_t step = std::max<std::int64_t>(slow.interval->ns, 1);
  const std::int64_t ahead = fast.last->ns - slow.last->ns;
  const std::int64_t r_most = kFarthestNs / std::max<std::int64_t>(fast.interval->ns, 1);
  for (std::uint32_t r = 0; r <= std::min<std::int64_t>(credits_most_, r_most); ++r) {
    const std::int64_t ours = ahead + r * fast.interval->ns;
    const auto k =
        std::clamp<std::int64_t>((ours + step / 2) / step, 1, std::int64_t{credits_most_} + 1);
    const std::int64_t apart = std::abs(ours - k * slow.interval->ns);
    if (apart >= nearest) continue;
    nearest = apart;
    best = r;
  }
  return best;
}

std::vector<WorkerId> DsspGate::release_ready() {
  std::vector<WorkerId> ready;
  if (members_.empty()) return ready;
  const std::uint64_t limit = slowest().commits + bound_;
  while (!held_.empty() && held_.begin()->first <= limit) {
    ready.push_back(held_.begin()->second);
    held_.erase(held_.begin());
  }
  std::ranges::sort(ready);
  return ready;
}

namespace rows {
Model dssp();
}

Model rows::dssp() {
  return {.info = {.name = "dssp",
                   .title = "DSSP",
                   .summary = "SSP whose fastest worker runs ahead when waiting would not help it",
                   .source = "Zhao et al., ICDCS 2019"},
          .options = {option<&DsspOptions::staleness>(
                          "staleness", "commits ahead of the slowest that are always free", kCount),
                      option<&DsspOptions::credits>(
                          "credits", "further commits that the fastest may be granted",
                          Limits::within(0, 1000))},
          .gate = [](const Options& o) -> std::unique_ptr<Gate> {
            return std::make_unique<DsspGate>(o.of<DsspOptions>());
          }};
}

}  // namespace rubato::sync
