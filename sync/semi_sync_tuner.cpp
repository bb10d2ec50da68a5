#include "sync/semi_sync_tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rubato::sync {

SemiSyncTuner::SemiSyncTuner(const SemiSyncOptions& options, double batches)
    : options_(options), batches_(batches) {
  RUBATO_CHECK(batches > 0, "the workers have data");
}

void SemiSyncTuner::on_join(Instant now, WorkerId worker) {
  QueuedTuner::on_join(now, worker);
  if (period_ > Duration{}) order(worker, {.period = period_});
}

void SemiSyncTuner::on_leave(Instant now, WorkerId worker) {
  QueuedTuner::on_leave(now, worker);
  update(now);
}

void SemiSyncTuner::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  QueuedTuner::on_progress(now, worker, progress);
  update(now);
}

void SemiSyncTuner::update(Instant now) {
  constexpr double kMoved = 0.1;
  if (!all_timed()) return;
  const double steps = std::ceil(batches_ / static_cast<double>(members().size()));
  const Duration period = slowest() * (options_.epochs * steps);
  const double moved = std::abs((period - period_).seconds());
  if (moved <= kMoved * period_.seconds()) return;
  period_ = period;
  order_all({.period = period});
  decide({.at = now,
          .quantity = "period in seconds",
          .value = period.seconds(),
          .reason = fmt::format("slowest of {}: {:.3f} s a step, {:.0f} steps an epoch",
                                members().size(), slowest().seconds(), steps)});
}

}  // namespace rubato::sync
