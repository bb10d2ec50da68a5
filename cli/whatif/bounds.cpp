#include "cli/whatif/bounds.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace rubato::cli::whatif {
namespace {

// Of the fewest updates seen, K_min is at least this part.
constexpr double kLeastPart = 0.01;
constexpr std::uint64_t kBatchesMax = 1'000'000;

double link_seconds(const cluster::LinkModel& link, double bytes) {
  double seconds = 2 * link.latency_seconds;
  for (const double rate : {link.up_bytes_per_second, link.down_bytes_per_second})
    if (rate > 0) seconds += bytes / rate;
  return seconds;
}

}  // namespace

// K = a + c / S, with weights 1 / K^2; K_min = a, B = c / a.
UpdatesNeeded fit_updates(const std::vector<SerialRun>& runs) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0, fewest = runs.front().updates;
  for (const SerialRun& run : runs) {
    const double weight = 1 / (run.updates * run.updates);
    const double x = 1 / run.batches;
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * run.updates;
    wxy += weight * x * run.updates;
    fewest = std::min(fewest, run.updates);
  }
  const double determinant = w * wxx - wx * wx;
  RUBATO_CHECK(determinant > 0, "runs of two different sizes");
  const double slope = std::max(0.0, (w * wxy - wx * wy) / determinant);
  const double least = std::max(kLeastPart * fewest, (wy - slope * wx) / w);
  return {least, slope / least};
}

std::vector<WorkerSpeed> worker_speeds(const cluster::ClusterConfig& config,
                                       std::uint64_t parameters) {
  const double bytes = 4 * static_cast<double>(parameters);
  std::vector<WorkerSpeed> speeds;
  for (const cluster::WorkerProfile& worker : cluster::worker_profiles(config))
    speeds.push_back(
        {worker.name, worker.device.step_seconds,
         link_seconds(worker.link, bytes) +
             link_seconds(config.servers.link, bytes / static_cast<double>(config.servers.count))});
  return speeds;
}

Gather::Gather(std::vector<WorkerSpeed> workers) : workers_(std::move(workers)) {
  RUBATO_CHECK(!workers_.empty(), "there are workers");
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    RUBATO_CHECK(workers_[i].step_seconds > 0, "steps take time");
    ends_.push_back({workers_[i].commit_seconds + workers_[i].step_seconds, i});
  }
  std::ranges::make_heap(ends_, std::ranges::greater(), &End::at);
}

double Gather::next() {
  std::ranges::pop_heap(ends_, std::ranges::greater(), &End::at);
  End& end = ends_.back();
  const double at = end.at;
  end.at += workers_[end.worker].step_seconds;
  std::ranges::push_heap(ends_, std::ranges::greater(), &End::at);
  return at;
}

BestGather best_gather(const UpdatesNeeded& updates, const std::vector<WorkerSpeed>& workers) {
  Gather gather(workers);
  BestGather best;
  double in_time = 0;  // t(S*)
  for (std::uint64_t batches = 1; batches <= kBatchesMax; ++batches) {
    const double at = gather.next();
    // More batches save no more than K(S) - K_min, and t(S) never falls.
    if (batches > 1 && updates.least * at >= best.seconds) break;
    const double seconds = updates.at(static_cast<double>(batches)) * at;
    if (batches == 1 || seconds < best.seconds) {
      best = {batches, seconds, {}};
      in_time = at;
    }
  }
  // Sums of floats may be a little below the end of a step.
  constexpr double kRoundedDown = 1e-9;
  for (const WorkerSpeed& worker : workers)
    if (in_time * (1 + kRoundedDown) < worker.commit_seconds + worker.step_seconds)
      best.useless.push_back(worker.name);
  return best;
}

double linear_bound(double serial_updates, const std::vector<WorkerSpeed>& workers) {
  double speed = 0;
  for (const WorkerSpeed& worker : workers) speed += 1 / worker.step_seconds;
  return serial_updates / speed;
}

}  // namespace rubato::cli::whatif
