// sync/commit_period.hpp - commit at the first mini-batch end a given time after the last reply.
// Source: Stripelis, Thompson, Ambite, "Semi-synchronous federated learning", arXiv 2102.02849.
// Letters: t_max the period. Until the tuner has set it, every mini-batch is committed.
// Pure. Threads: one owner. Errors: none.
#pragma once

#include "sync/model.hpp"

namespace rubato::sync {

class CommitPeriod final : public CommitRule {
 public:
  void on_start(Instant now) override { since_ = now; }
  bool on_step_end(Instant now) override { return now - since_ >= period_; }
  void on_commit_sent(Instant) override {}
  void on_reply(Instant now, Duration) override { since_ = now; }
  void on_directive(Instant, const Directive& directive) override {
    if (directive.period > Duration{}) period_ = directive.period;
  }

 private:
  Duration period_;  // t_max
  Instant since_;    // the last reply, or the start
};

}  // namespace rubato::sync
