#include "cluster/cluster_scaling.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ranges>
#include <span>

#include "base/check.hpp"

namespace rubato::cluster {
namespace {

void keep_largest(std::vector<WorkerGroup>& groups, std::size_t kept) {
  std::vector<int> counts;
  for (const WorkerGroup& group : groups) counts.push_back(group.count);
  std::ranges::sort(counts, std::greater<>());
  const int least = counts[kept - 1];
  auto of_least = std::ranges::count(std::span(counts).first(kept), least);  // that are kept
  std::erase_if(groups, [&](const WorkerGroup& group) {
    return group.count < least || (group.count == least && of_least-- <= 0);
  });
}

}  // namespace

void scale_worker_count(std::vector<WorkerGroup>& groups, int total) {
  RUBATO_CHECK(total >= 1 && !groups.empty(), "there are workers");
  if (static_cast<std::size_t>(total) < groups.size())
    keep_largest(groups, static_cast<std::size_t>(total));
  const auto group_count = static_cast<int>(groups.size());
  std::int64_t all = 0;
  for (const WorkerGroup& group : groups) all += group.count;
  // First one worker a group, then shares of the rest. Integers give the same on every machine.
  const std::int64_t rest = total - group_count;
  std::vector<std::int64_t> remainders;
  std::int64_t left = rest;
  for (WorkerGroup& group : groups) {
    // The group's share of all workers, less the one that it has.
    const std::int64_t share =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(group.count) * total - all);
    remainders.push_back(share);
    group.count = 1;
  }
  const std::int64_t shares =
      std::accumulate(remainders.begin(), remainders.end(), std::int64_t{0});
  for (std::size_t i = 0; i < groups.size() && shares > 0; ++i) {
    const std::int64_t whole = remainders[i] * rest / shares;
    remainders[i] = remainders[i] * rest % shares;
    groups[i].count += static_cast<int>(whole);
    left -= whole;
  }
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return remainders[i]; });
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size(), --left) ++groups[order[i]].count;
}

bool set_heterogeneity(std::vector<WorkerGroup>& groups, double heterogeneity) {
  if (groups.size() == 1) return heterogeneity == 1;
  // Slowest first, of equals the last.
  std::vector<WorkerGroup*> order;
  for (WorkerGroup& group : std::views::reverse(groups)) order.push_back(&group);
  std::ranges::stable_sort(order, std::greater<>(),
                           [](const WorkerGroup* group) { return group->device.step_seconds; });
  double workers = 0;
  double speed_above = 0;  // of all groups that keep their speed
  for (const WorkerGroup* group : order) {
    workers += group->count;
    speed_above += group->count / group->device.step_seconds;
  }
  double below = 0;  // workers that get the speed sought
  for (std::size_t i = 0; i < order.size(); ++i) {
    below += order[i]->count;
    speed_above -= order[i]->count / order[i]->device.step_seconds;
    // (speed_above + below f) / workers = H f. The fastest group keeps its speed.
    const bool last = i + 1 == order.size();
    const double f =
        last ? 1 / order[i]->device.step_seconds : speed_above / (workers * heterogeneity - below);
    if (!last && f > 1 / order[i + 1]->device.step_seconds) continue;
    for (std::size_t k = 0; k <= i; ++k) order[k]->device.step_seconds = 1 / f;
    break;
  }
  return true;
}

}  // namespace rubato::cluster
