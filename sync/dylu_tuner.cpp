#include "sync/dylu_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rubato::sync {

void DyluTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  ordered_.erase(worker);
  update(now);
}

void DyluTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  QueuedTuner::on_progress(now, worker, progress);
  update(now);
}

void DyluTuner::update(Instant now) {
  constexpr double kMoved = 0.1;  // smaller changes are jitter
  if (!all_timed()) return;
  Duration fastest = members().begin()->second.step_time;
  for (const auto& [worker, progress] : members()) fastest = std::min(fastest, progress.step_time);
  for (const auto& [worker, progress] : members()) {
    const double share = fastest.seconds() / progress.step_time.seconds();
    // A hair above, so that equal speeds measured a rounding apart count as equal.
    const double floored = std::floor(share * options_.local_steps + 1e-6);
    const auto steps = static_cast<std::uint32_t>(std::max(1.0, floored));
    std::uint32_t& ordered = ordered_[worker];
    if (std::abs(static_cast<double>(steps) - ordered) <= kMoved * ordered) continue;
    ordered = steps;
    order(worker, {.local_steps = steps});
    decide({.at = now,
            .quantity = "local steps",
            .value = static_cast<double>(steps),
            .reason = fmt::format("worker {} runs at {:.0f} % of the fastest", worker.value,
                                  100 * share)});
  }
}

}  // namespace rubato::sync
