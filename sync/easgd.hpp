// sync/easgd.hpp - Elastic averaging SGD: every worker keeps its own parameters, tied to the
// servers' by a spring.
// Source: Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, Alg. 1.
// Letters: tau local steps between two exchanges, beta moving rate, alpha = beta / m.
//
// Every tau steps a worker commits its parameters W_i; the servers take d = alpha (W_i - W) and
// move W <- W + d; the worker moves W_i <- W_i - d (worker/worker_core.hpp). Applied and answered
// at once. Alpha is the weight of the commits: this tuner tells it to all when m changes. Pure.
// Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include "sync/queued_tuner.hpp"

namespace rubato::sync {

struct EasgdOptions {
  int local_steps = 10;      // tau >= 1
  double moving_rate = 0.9;  // beta, in (0, 1)
};

class EasgdTuner final : public QueuedTuner {
 public:
  // Requires: valid options (sync/option_table.hpp).
  explicit EasgdTuner(const EasgdOptions& options) : options_(options) {}

  void on_start(Instant now) override {
    started_ = true;
    tell(now);
  }
  void on_join(Instant now, WorkerId worker) override {
    QueuedTuner::on_join(now, worker);
    if (started_) tell(now);
  }
  void on_leave(Instant now, WorkerId worker) override {
    QueuedTuner::on_leave(now, worker);
    if (started_) tell(now);
  }

 private:
  void tell(Instant now);

  const EasgdOptions options_;
  bool started_ = false;
};

}  // namespace rubato::sync
