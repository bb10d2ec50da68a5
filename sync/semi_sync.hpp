// sync/semi_sync.hpp - Semi-synchronous training: all train for the time that the slowest
// worker needs for lambda passes over its data, then meet.
// Source: Stripelis, Thompson, Ambite, "Semi-synchronous federated learning for energy-efficient
// training and accelerated convergence in cross-silo settings", arXiv 2102.02849, Sec. 3.
// Letters: t_max = lambda x the longest of the workers' epoch times.
//
// An epoch of worker i is its share of the data (total / m) in batches, times its step time. t_max
// is set once every member has reported a step time and again when it has moved by 10 %.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <optional>

#include "sync/queued_tuner.hpp"

namespace rubato::sync {

struct SemiSyncOptions {
  double epochs = 1;  // lambda > 0
};

// Commits at the first mini-batch end a given time after the last reply. Until the tuner has set
// that time, every mini-batch is committed.
class CommitPeriod final : public CommitRule {
 public:
  void on_start(Instant now, bool) override { since_ = since_.value_or(now); }
  bool on_step_end(Instant now) override { return now - since_.value_or(now) >= period_; }
  void on_commit_sent(Instant) override {}
  void on_reply(Instant now, Duration) override { since_ = now; }
  void on_directive(Instant, const Directive& directive) override {
    if (directive.period > Duration{}) period_ = directive.period;
  }

 private:
  Duration period_;               // t_max
  std::optional<Instant> since_;  // the last reply, or the first start
};

class SemiSyncTuner final : public QueuedTuner {
 public:
  // batches: mini-batches in one pass over the training data of all workers.
  // Requires: valid options (sync/option_table.hpp).
  SemiSyncTuner(const SemiSyncOptions& options, double batches);

  void on_join(Instant now, WorkerId worker) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;

 private:
  void update(Instant now);

  const SemiSyncOptions options_;
  const double batches_;
  Duration period_;  // t_max, 0 until it is known
};

}  // namespace rubato::sync
