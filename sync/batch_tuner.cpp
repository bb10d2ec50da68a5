#include "sync/batch_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

namespace rubato::sync {
namespace {

constexpr std::uint64_t kTimedSteps = 5;  // before a step time is believed
constexpr double kMoved = 0.1;            // smaller changes are jitter

// Whole parts that end by `end` at the latest; one at least, whenever that ends.
std::uint32_t part_until(double end, double speed, std::uint32_t most) {
  return static_cast<std::uint32_t>(std::clamp<double>(std::floor(end * speed), 1, most));
}

// Returns: an end by which nearly all of `total` is dealt out, and not more than that.
double nearly_dealt(const std::vector<double>& speeds, std::uint64_t total, std::uint32_t most) {
  constexpr int kHalvings = 60;
  double early = 0, late = most / std::ranges::min(speeds);
  for (int i = 0; i < kHalvings; ++i) {
    const double end = (early + late) / 2;
    std::uint64_t dealt = 0;
    for (const double speed : speeds) dealt += part_until(end, speed, most);
    (dealt <= total ? early : late) = end;
  }
  return early;
}

}  // namespace

// One each, then one sample after the other to the worker that would end first with it. All but the
// last few of that order are known beforehand: they end by an end that leaves some over. One less,
// as quotients are rounded.
std::vector<std::uint32_t> proportional_parts(const std::vector<double>& speeds,
                                              std::uint64_t total, std::uint32_t most) {
  RUBATO_CHECK(speeds.size() <= total && total <= speeds.size() * most, "parts fit the total");
  using Next = std::pair<double, std::size_t>;  // end of one sample more, whose
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  std::vector<std::uint32_t> parts;
  const double end = nearly_dealt(speeds, total, most);
  std::uint64_t left = total;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    parts.push_back(std::max(part_until(end, speeds[i], most), 2u) - 1);
    left -= parts[i];
    if (parts[i] < most) next.emplace((parts[i] + 1) / speeds[i], i);
  }
  for (; left > 0; --left) {
    const std::size_t i = next.top().second;
    next.pop();
    if (++parts[i] < most) next.emplace((parts[i] + 1) / speeds[i], i);
  }
  return parts;
}

std::uint32_t largest_batch(double most, int batch) {
  return static_cast<std::uint32_t>(std::lround(most * batch));
}

BatchTuner::BatchTuner(double most, int batch)
    : batch_(static_cast<std::uint32_t>(batch)), largest_(largest_batch(most, batch)) {
  RUBATO_CHECK(batch >= 1 && largest_ >= batch_, "options are validated before");
}

void BatchTuner::on_join(Instant now, WorkerId worker) {
  QueuedTuner::on_join(now, worker);
  shares_[worker] = {};
}

void BatchTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  shares_.erase(worker);
  update(now);
}

void BatchTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  QueuedTuner::on_progress(now, worker, progress);
  Share& share = shares_.at(worker);
  if (!share.steps && progress.batch == share.batch && progress.step_time > Duration{})
    share.steps = progress.steps;
  update(now);
}

bool BatchTuner::timed(WorkerId worker, const Share& share) const {
  const WorkerProgress& progress = members().at(worker);
  return share.steps && progress.steps >= *share.steps + kTimedSteps - 1 &&
         progress.step_time > Duration{};
}

void BatchTuner::update(Instant now) {
  std::vector<double> speeds;  // samples a second
  for (const auto& [worker, share] : shares_) {
    if (!timed(worker, share)) return;
    const double b = share.batch == 0 ? batch_ : share.batch;
    speeds.push_back(b / members().at(worker).step_time.seconds());
  }
  if (speeds.empty()) return;
  const auto parts = proportional_parts(speeds, speeds.size() * std::uint64_t{batch_}, largest_);
  bool moved = false;
  std::size_t i = 0;
  for (const auto& [worker, share] : shares_) {
    const double now_at = share.batch == 0 ? batch_ : share.batch;
    moved = moved || std::abs(parts[i] - now_at) > std::max(1.0, kMoved * now_at);
    ++i;
  }
  if (!moved) return;
  i = 0;
  for (auto& [worker, share] : shares_) {
    const std::uint32_t part = parts[i++];
    if (part == share.batch) continue;
    share = {.batch = part, .steps = std::nullopt};
    order(worker, {.weight = static_cast<double>(part) / batch_, .batch = part});
    decide(
        {.at = now,
         .quantity = "mini-batch",
         .value = static_cast<double>(part),
         .reason = fmt::format("worker {} takes {:.1f} of {:.1f} samples a second", worker.value,
                               speeds[i - 1], std::accumulate(speeds.begin(), speeds.end(), 0.0))});
  }
}

}  // namespace rubato::sync
