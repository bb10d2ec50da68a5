#include "sync/semi_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include "sync/model_row.hpp"

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

namespace rows {
Model semi_sync();
}

Model rows::semi_sync() {
  return {
      .info = {.name = "semi-sync",
               .title = "Semi-sync",
               .summary = "a barrier each time the slowest has passed over its data",
               .source = "Stripelis et al. 2021"},
      .options = {option<&SemiSyncOptions::epochs>(
          "epochs", "passes of the slowest worker over its data between two barriers",
          Limits::above(0))},
      .rule = [](const Options&) -> std::unique_ptr<CommitRule> {
        return std::make_unique<CommitPeriod>();
      },
      .gate = Model::barrier,
      .tuner = [](const Options& o, const RunFacts& f) -> std::unique_ptr<Tuner> {
        return std::make_unique<SemiSyncTuner>(o.of<SemiSyncOptions>(), f.batches);
      },
      .lack = [](const Options&, std::uint64_t samples) -> std::optional<Lack> {
        if (samples > 0) return std::nullopt;
        return Lack{"dataset.samples", "data to count; say how many samples semi-sync passes over"};
      }};
}

}  // namespace rubato::sync
