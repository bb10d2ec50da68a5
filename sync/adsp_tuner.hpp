// sync/adsp_tuner.hpp - ADSP's scheduler side: how many commits each worker should have at the next
// checkpoint, and the search for the commit rate that makes the loss fall fastest.
// Source: Hu, Wang, Wu, AAAI 2020, Sec. 4 and Alg. 1. Letters: Gamma check period, R commit rate,
// C_target commits every worker should have at the next checkpoint, c_i commits of worker i so far
// (a joiner starts at the current minimum), dC_i = clamp(C_target - c_i, 1, R_cap), t_i seconds per
// mini-batch, O_i commit overhead, m workers.
//
// Every Gamma, C_target grows by R, so that all commit equally often, also without a search
// (AdspOptions::fixed_rate). Each epoch, and when the loss at a checkpoint is 30 % or more above
// that of the checkpoint before, a search (sync/rate_search.hpp) tries rates in windows, while
// training goes on: nobody stops and nothing is rolled back. Until some loss arrives, the rate
// stays where it started. What the windows are and where a search starts: docs/sync.md.
// Pure. Units: Instant/Duration; rates in commits per Gamma. Threads: one owner. Errors: none;
// misuse is a bug. A loss that is not finite or not above 0 is ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "sync/options.hpp"
#include "sync/queued_tuner.hpp"
#include "sync/rate_search.hpp"

namespace rubato::sync {

class AdspTuner final : public QueuedTuner {
 public:
  // parameter_bytes: bytes(W) on the wire, for the byte budget.
  // Requires: valid options (sync/option_table.hpp).
  AdspTuner(const AdspOptions& options, std::uint64_t parameter_bytes);

  void on_start(Instant now) override;
  void on_join(Instant now, WorkerId worker) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;
  void on_evaluation(Instant now, const EvaluationPoint& point) override;
  void on_wakeup(Instant now) override;
  std::optional<Instant> poll_wakeup() const override;

 private:
  struct Member {
    std::uint64_t commits_at_join = 0;  // the minimum of the others then
    WorkerProgress progress;
    double ordered = 0;      // the last dC_i sent; 0 none
    std::uint64_t mark = 0;  // c_i when the present stage began
    std::uint64_t commits() const { return commits_at_join + progress.commits; }  // c_i
    Duration cycle() const { return progress.step_time + progress.overhead; }     // t_i + O_i
  };
  // Probe: commit soon, to learn what a commit costs. Settle: a new rate is being tried, a worker
  // has not yet committed under it. Measure: the window is open. Hold: the search is over.
  enum class Stage { Probe, Settle, Measure, Hold };

  void advance(Instant now);
  bool begin_due_search(Instant now);  // at a checkpoint
  void begin_epoch(Instant now);
  void begin_search(Instant now, int rate, const std::string& reason);
  void begin_window(Instant now, int rate);
  void open_window(Instant now);
  void close_window(Instant now);
  void enter(Stage stage);
  // Every member, since the present stage began.
  bool all_committed() const { return behind_ == 0; }
  bool window_full() const;
  void set_rate(Instant now, int rate);
  void send_orders();
  void send_order(WorkerId worker, Member& member, int cap);  // cap: R_cap
  void explain(Instant now, std::string reason);
  int rate_max() const;    // R_cap
  int start_rate() const;  // of the first search
  // Seconds. Requires: every member has committed.
  double mean_overhead() const;
  // c_i of the slowest and of the fastest member; 0 where there is none.
  std::uint64_t slowest() const { return counts_.empty() ? 0 : counts_.begin()->first; }
  std::uint64_t fastest() const { return counts_.empty() ? 0 : counts_.rbegin()->first; }
  void count(const Member& member);    // its c_i is now part of counts_ and behind_
  void uncount(const Member& member);  // and no longer

  const AdspOptions options_;
  const std::uint64_t parameter_bytes_;
  Instant now_;
  std::optional<Instant> started_;
  std::map<WorkerId, Member> members_;           // instead of the base's: more of each is kept
  std::map<std::uint64_t, std::size_t> counts_;  // how many members have c_i = the key
  std::size_t behind_ = 0;  // members that have not committed since the present stage began

  int rate_ = 1;              // R
  std::uint64_t target_ = 0;  // C_target
  Instant checkpoint_;        // the next
  Instant epoch_end_;
  bool searched_ = false;  // a search has ended: rate_ is the last epoch's R

  Stage stage_ = Stage::Hold;
  std::optional<RateSearch> search_;  // in Settle and Measure
  Window window_;                     // losses since it opened
  Instant window_opened_;

  std::optional<LossSample> last_;              // seconds since the start
  std::optional<double> last_checkpoint_loss_;  // since the rate was set
};

}  // namespace rubato::sync
