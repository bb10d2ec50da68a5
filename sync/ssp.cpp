#include "sync/ssp.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace rubato::sync {
namespace {

std::uint64_t checked_staleness(int staleness) {
  RUBATO_CHECK(staleness >= 0, "staleness is validated before");
  return static_cast<std::uint64_t>(staleness);
}

}  // namespace

SspGate::SspGate(int staleness) : staleness_(checked_staleness(staleness)) {}

void SspGate::on_join(Instant, WorkerId worker) {
  RUBATO_CHECK(commits_.emplace(worker, slowest()).second, "a worker joins once");
}

GateActions SspGate::on_leave(Instant, WorkerId worker) {
  RUBATO_CHECK(commits_.erase(worker) == 1, "only a member leaves");
  held_.erase(worker);
  return {.apply = {}, .release = release_ready()};
}

GateActions SspGate::on_commit(Instant, WorkerId worker) {
  const auto member = commits_.find(worker);
  RUBATO_CHECK(member != commits_.end(), "only members commit");
  RUBATO_CHECK(held_.insert(worker).second, "one commit of a worker is outstanding");
  ++member->second;
  return {.apply = {worker}, .release = release_ready()};
}

std::uint64_t SspGate::slowest() const {
  if (commits_.empty()) return 0;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(commits_.begin(), commits_.end(), less)->second;
}

std::vector<WorkerId> SspGate::release_ready() {
  const std::uint64_t limit = slowest() + staleness_;
  std::vector<WorkerId> ready;
  for (const WorkerId worker : held_) {
    if (commits_.at(worker) <= limit) ready.push_back(worker);
  }
  for (const WorkerId worker : ready) held_.erase(worker);
  return ready;
}

}  // namespace rubato::sync
