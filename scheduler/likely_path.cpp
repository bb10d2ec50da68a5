#include "scheduler/likely_path.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace rubato::scheduler {
namespace {

// Shares of waiting that differ by less do not say who waits for whom: steps scatter.
constexpr double kAlike = 0.05;
// Below it a worker does not wait.
constexpr double kNoWait = 0.01;

double busy(const WorkerTimes& worker) {
  return worker.compute + worker.communicate;
}

double wait_share(const WorkerTimes& worker) {
  return worker.wait / (worker.wait + busy(worker));
}

bool is_dropped(const WorkerTimes& worker) {
  return 2 * worker.dropped_commits > worker.commits;
}

// The workers that others wait for.
std::vector<const WorkerTimes*> leading(const std::vector<const WorkerTimes*>& workers) {
  double least = 1;
  for (const WorkerTimes* worker : workers)
    if (!is_dropped(*worker)) least = std::min(least, wait_share(*worker));
  std::vector<const WorkerTimes*> leaders;
  for (const WorkerTimes* worker : workers)
    if (!is_dropped(*worker) && wait_share(*worker) <= least + kAlike) leaders.push_back(worker);
  return leaders;
}

}  // namespace

std::vector<PathPart> likely_path(const std::vector<WorkerTimes>& workers) {
  std::vector<const WorkerTimes*> known;
  double steps = 0;
  for (const WorkerTimes& worker : workers) {
    if (worker.steps == 0 || busy(worker) <= 0) continue;
    known.push_back(&worker);
    steps += static_cast<double>(worker.steps);
  }
  const auto leaders = leading(known);
  const auto count = static_cast<double>(std::max<std::size_t>(leaders.size(), 1));
  const bool waits = std::ranges::any_of(
      known, [](const WorkerTimes* worker) { return wait_share(*worker) > kNoWait; });
  std::map<std::pair<std::string, PathPart::What>, double> shares;
  const auto add = [&](const WorkerTimes& path, const std::string& node, double weight) {
    shares[{node, PathPart::What::Compute}] += weight * path.compute / busy(path);
    shares[{node, PathPart::What::Communicate}] += weight * path.communicate / busy(path);
  };
  for (const WorkerTimes* worker : known) {
    const double weight = static_cast<double>(worker->steps) / steps;
    if (!waits || is_dropped(*worker) || leaders.empty()) {
      add(*worker, worker->name, weight);
      continue;
    }
    for (const WorkerTimes* leader : leaders)
      add(*leader, leaders.size() == 1 ? leader->name : std::string(), weight / count);
  }
  std::vector<PathPart> parts;
  for (const auto& [part, share] : shares)
    if (share > 0) parts.push_back({part.first, part.second, share});
  std::ranges::stable_sort(parts, std::ranges::greater(), &PathPart::share);
  return parts;
}

}  // namespace rubato::scheduler
