// sync/adacomm.hpp - ADACOMM: many local steps at first, fewer as the loss falls.
// Source: Wang & Joshi, "Adaptive communication strategies to achieve the best error-runtime
// trade-off in local-update SGD", MLSys 2019, arXiv 1810.08313, Sec. 4 (equations 18 and 19).
// Letters: tau local steps per commit, tau_0 the first, T_0 the period, F the loss.
//
// Every T_0: candidate = sqrt(F(now) / F(start)) tau_0; tau becomes ceil(candidate) if the
// candidate is below tau, else ceil(tau / 2), so tau never rises. F is the mean of the losses seen
// in a period; the first period's is F(start). So the first period always halves tau, and a halved
// tau is below all candidates until the loss is a quarter: tau is 1 after a few periods. With
// `stuck = keep` tau stays as it is instead of halving. The paper tries several tau_0 with
// rollback; here it is given. Pure. Threads: one owner. Errors: none; a loss that is not finite or
// not above 0 is ignored.
#pragma once

#include "sync/queued_tuner.hpp"

namespace rubato::sync {

enum class Stuck { Halve, Keep };

struct AdacommOptions {
  int local_steps = 40;                          // tau_0 >= 1
  Duration period = Duration::from_seconds(60);  // T_0
  Stuck stuck = Stuck::Halve;                    // tau where the loss asks for no fewer steps
};

class AdacommTuner final : public QueuedTuner {
 public:
  // Requires: valid options (sync/option_table.hpp).
  explicit AdacommTuner(const AdacommOptions& options);

  void on_start(Instant now) override;
  void on_join(Instant now, WorkerId worker) override;
  void on_evaluation(Instant now, const EvaluationPoint& point) override;
  void on_wakeup(Instant now) override;
  std::optional<Instant> poll_wakeup() const override { return next_; }

 private:
  void update(Instant now);

  const AdacommOptions options_;
  std::uint32_t local_steps_;  // tau
  std::optional<Instant> next_;
  std::optional<double> first_loss_;  // F(start)
  double loss_sum_ = 0;               // of the period
  int losses_ = 0;
};

}  // namespace rubato::sync
