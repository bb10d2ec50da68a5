// sync/adsp.hpp - ADSP: equal commit counts per check period, at a rate that is searched online;
// nobody waits. Commit rule and tuner.
// Source: Hu, Wang, Wu, "Distributed Machine Learning through Heterogeneous Edge Systems", AAAI
// 2020, Sec. 4 and Alg. 1. Letters: Gamma check period, R commit rate, C_target commits every
// worker should have at the next checkpoint, c_i commits of worker i so far (a joiner starts at the
// current minimum), dC_i = clamp(C_target - c_i, 1, R_cap) its commit rate, t_i seconds per
// mini-batch, O_i commit overhead, m workers. Pure. Units: Instant/Duration; rates in commits per
// Gamma. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "sync/batch_tuner.hpp"
#include "sync/queued_tuner.hpp"
#include "sync/rate_search.hpp"

namespace rubato::sync {

enum class RewardKind { Robust, Paper };
enum class SearchStart { Warm, Paper };
enum class Batches { Equal, Speed };

// A run has at least so many check periods, as the paper's epoch has. So a file that does not state
// the period has a shorter one where the run is short.
inline constexpr double kCheckPeriodsMin = 20;

struct AdspOptions {
  Duration check_period = Duration::from_seconds(60);  // Gamma
  Duration epoch = Duration::from_seconds(1200);       // a new search begins every epoch
  RewardKind reward = RewardKind::Robust;
  SearchStart start = SearchStart::Warm;
  // Commits per check period, for a run without a search (baselines, sweeps).
  std::optional<int> fixed_rate;
  bool overlap = false;         // train on while a commit is in flight
  double bytes_per_second = 0;  // byte budget of the whole cluster; 0 is none
  Batches batches = Batches::Equal;
};

// A commit is due Gamma/dC_i - O_i after the last reply, and happens at the first mini-batch end at
// or after that. How late it was is taken off the next interval, so that counts do not drift. What
// exceeds one interval is forgotten: the tuner sees the missing commits and raises dC_i. A new dC_i
// moves the due time at once, still counted from the last reply: a timer that started anew with
// each directive would never fire for dC_i = 1. An interval <= 0 means every mini-batch.
class AdspRule final : public CommitRule {
 public:
  // Requires: check_period > 0.
  explicit AdspRule(Duration check_period);

  void on_start(Instant now, bool anew) override;
  bool on_step_end(Instant now) override;
  void on_commit_sent(Instant now) override;
  void on_reply(Instant now, Duration overhead) override;
  void on_directive(Instant now, const Directive& directive) override;

 private:
  Duration interval() const;  // between two commits: Gamma/dC_i
  Instant due() const;
  void advance(Instant now);

  const Duration check_period_;
  double commit_rate_ = 1;  // dC_i
  Duration overhead_;       // O_i: EWMA with factor 0.5, from 0
  Duration lateness_;       // of the last commit, within [0, interval()]
  Instant last_reply_;      // or the first start
  bool started_ = false;
  Instant now_;
  bool in_flight_ = false;  // a commit was sent and not yet answered
};

// Every Gamma, C_target grows by R, so that all commit equally often, also without a search
// (AdspOptions::fixed_rate). Each epoch, and when the loss at a checkpoint is 30 % or more above
// that of the checkpoint before, a search (sync/rate_search.hpp) tries rates in windows, while
// training goes on: nobody stops and nothing is rolled back. Until some loss arrives, the rate
// stays where it started. docs/sync.md tells what the windows are and where a search starts. A loss
// that is not finite or not above 0 is ignored.
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

// ADSP whose workers take mini-batches in proportion to speed (the batches of ADSP++): AdspTuner
// and BatchTuner (sync/batch_tuner.hpp) side by side. A worker still commits on its timer. A
// directive is whole, so each order of one tuner repeats what the other has last said of that
// worker.
class BatchedAdsp final : public Tuner {
 public:
  // Requires: valid options (sync/option_table.hpp), batch >= 1.
  BatchedAdsp(const AdspOptions& options, std::uint64_t parameter_bytes, int batch);

  void on_start(Instant now) override;
  void on_join(Instant now, WorkerId worker) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;
  void on_evaluation(Instant now, const EvaluationPoint& point) override;
  void on_wakeup(Instant now) override;
  std::optional<Instant> poll_wakeup() const override { return rates_.poll_wakeup(); }
  std::optional<Order> poll_order() override;
  std::optional<Decision> poll_decision() override;
  const Phase& phase() const override { return rates_.phase(); }

 private:
  AdspTuner rates_;
  BatchTuner batches_;
  std::map<WorkerId, Directive> told_;  // by both together
};

}  // namespace rubato::sync
