// sync/tempo_tuner.hpp - Rubato's own model: sets the global rate and the local rate of every
// worker from how their updates lie to each other (docs/tempo.md), nothing to be set by hand.
// Letters: k the global rate in units of 1/m, the weight of commits; l the part
// of the learning rate that local steps take, from min(1, k)/m (a worker moves no farther than
// its commit will move the global parameters) to 1.
// Bounds: 1/32 <= k <= 8, at most m/2 (or 1) so that no commit moves the parameters farther than
// half the way to where its worker is, and below what the held-out loss has shown to be too much
// (sync/rate_cap.hpp). Pure. Threads: one owner. Errors: none.
#pragma once

#include <string>

#include "sync/queued_tuner.hpp"
#include "sync/rate_cap.hpp"

namespace rubato::sync {

class TempoTuner final : public QueuedTuner {
 public:
  TempoTuner();

  void on_start(Instant now) override;
  void on_join(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;
  void on_evaluation(Instant now, const EvaluationPoint& point) override;

 private:
  struct Rates {
    double global = 1;  // k
    double local = 1;   // l
  };
  Directive directive() const;
  void clamp();
  // A worker's first commits: their cosines are not known yet, how long they take is.
  void on_first_commits(const WorkerProgress& progress);
  void follow(const Alignment& alignment);
  // Tells the workers when the rates have moved by a twentieth, the log when by a third.
  void announce(Instant now);
  void tell(Instant now, const std::string& reason);

  Rates rates_, ordered_, logged_;
  RateCap cap_;
  Alignment seen_;  // EWMA over reports, for the log
};

}  // namespace rubato::sync
