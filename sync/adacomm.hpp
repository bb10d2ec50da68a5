// sync/adacomm.hpp - ADACOMM: many local steps at first, fewer as the loss falls.
// Source: Wang & Joshi, "Adaptive communication strategies to achieve the best error-runtime
// trade-off in local-update SGD", MLSys 2019, arXiv 1810.08313, Sec. 4 (equations 18 and 19).
// Letters: tau local steps per commit, tau_0 the first, T_0 the period, F the loss.
//
// Every T_0: candidate = sqrt(F(now) / F(start)) tau_0; tau becomes ceil(candidate) if the
// candidate is below tau, else ceil(tau / 2), so tau never rises. F is the mean of the losses seen
// in a period; the first period's is F(start). So the first period always halves tau, and a halved
// tau is below all candidates until the loss is a quarter: tau is 1 after a few periods. With
// `stuck = keep` tau stays as it is instead of halving.
//
// tau_0 is given, or searched: each of {100, 80, 60, 40, 20, 10, 5, 1} steps is tried for one
// period, and all shards go back to the initial parameters. The one with the lowest last loss is
// tau_0. The largest comes first: a worker that goes on to fewer steps commits at once, and so
// learns of the return. Where no loss was seen, tau_0 is as given. Pure. Threads: one owner.
// Errors: none; a loss that is not finite or not above 0 is ignored.
#pragma once

#include <array>
#include <string>

#include "sync/queued_tuner.hpp"

namespace rubato::sync {

enum class Stuck { Halve, Keep };

struct AdacommOptions {
  int local_steps = 40;                          // tau_0 >= 1
  Duration period = Duration::from_seconds(60);  // T_0
  Stuck stuck = Stuck::Halve;                    // tau where the loss asks for no fewer steps
  bool search = false;                           // tau_0 is searched
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
  bool searching() const { return trial_ < kTrials.size(); }
  void begin_trial(Instant now);
  void end_trial(Instant now);
  void begin(Instant now, const std::string& why);
  void update(Instant now);

  static constexpr std::array<std::uint32_t, 8> kTrials{100, 80, 60, 40, 20, 10, 5, 1};
  const AdacommOptions options_;
  std::uint32_t first_local_steps_;  // tau_0
  std::uint32_t local_steps_;        // tau
  std::optional<Instant> next_;
  std::size_t trial_ = kTrials.size();  // of the search; its end: there is none, or it is over
  std::optional<double> trial_loss_;    // the last of the trial
  std::optional<double> lowest_loss_;   // of the trials that have ended
  std::optional<double> first_loss_;    // F(start)
  double loss_sum_ = 0;                 // of the period
  int losses_ = 0;
};

}  // namespace rubato::sync
