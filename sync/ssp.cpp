#include "sync/ssp.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "sync/model_row.hpp"

namespace rubato::sync {
namespace {

std::uint64_t checked_staleness(int staleness) {
  RUBATO_CHECK(staleness >= 0, "staleness is validated before");
  return static_cast<std::uint64_t>(staleness);
}

}  // namespace

SspGate::SspGate(int staleness) : staleness_(checked_staleness(staleness)) {}

void SspGate::on_join(Instant, WorkerId worker) {
  const std::uint64_t commits = slowest();
  RUBATO_CHECK(commits_.emplace(worker, commits).second, "a worker joins once");
  ++counts_[commits];
}

GateActions SspGate::on_leave(Instant, WorkerId worker) {
  const auto member = commits_.find(worker);
  RUBATO_CHECK(member != commits_.end(), "only a member leaves");
  const std::uint64_t commits = member->second;
  commits_.erase(member);
  leave_count(commits);
  if (const auto held = held_.find(commits); held != held_.end()) held->second.erase(worker);
  return {.apply = {}, .release = release_ready()};
}

void SspGate::on_first_commit(WorkerId worker, std::uint64_t round) {
  std::uint64_t& commits = commits_.at(worker);
  if (round <= commits) return;
  ++counts_[round];
  leave_count(std::exchange(commits, round));
}

GateActions SspGate::on_commit(Instant, WorkerId worker) {
  const auto member = commits_.find(worker);
  RUBATO_CHECK(member != commits_.end(), "only members commit");
  const std::uint64_t before = member->second++;
  const auto held = held_.find(before);
  RUBATO_CHECK(held == held_.end() || !held->second.contains(worker),
               "one commit of a worker is outstanding");
  ++counts_[member->second];
  leave_count(before);
  held_[member->second].insert(worker);
  return {.apply = {worker}, .release = release_ready()};
}

void SspGate::leave_count(std::uint64_t commits) {
  const auto count = counts_.find(commits);
  if (--count->second == 0) counts_.erase(count);
}

std::vector<WorkerId> SspGate::release_ready() {
  const std::uint64_t limit = slowest() + staleness_;
  std::vector<WorkerId> ready;
  while (!held_.empty() && held_.begin()->first <= limit) {
    const auto& workers = held_.begin()->second;
    ready.insert(ready.end(), workers.begin(), workers.end());
    held_.erase(held_.begin());
  }
  std::ranges::sort(ready);
  return ready;
}

namespace rows {
Model ssp();
}

Model rows::ssp() {
  return {
      .info = {.name = "ssp",
               .title = "SSP",
               .summary = "every step is committed; the fastest waits when it is s commits ahead",
               .source = "Ho et al. 2013",
               .compared = true},
      .options = {option<&SspOptions::staleness>(
          "staleness", "commits that a worker may be ahead of the slowest", kCount)},
      .gate = [](const Options& o) -> std::unique_ptr<Gate> {
        return std::make_unique<SspGate>(o.of<SspOptions>().staleness);
      },
      .tries = {.options = {{{"staleness", "3"}}}, .rates = {2, 4}}};
}

}  // namespace rubato::sync
