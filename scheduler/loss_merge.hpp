// scheduler/loss_merge.hpp - the loss of a run where its workers measure it: each on samples that
// it holds out, or on those that it trains on. It makes one figure of theirs, weighted by samples.
// One worker may lie or break. So a figure far above the usual one does not count, and no worker
// counts for more samples than it can have. Nobody is checked where nobody is watched.
// Pure. Cost: O(workers) for a merge, else O(1). Threads: one owner. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/task.hpp"
#include "proto/messages.hpp"
#include "proto/outbox.hpp"
#include "scheduler/roster.hpp"

namespace rubato::scheduler {

class LossMerge {
 public:
  struct Options {
    bool watch = false;  // workers may lie or break
    Task task = Task::Classification;
    std::uint32_t batch = 0;  // samples of a step, unless a directive says otherwise; 0: unknown
    // The samples that a worker can have held out, by its name, where it has described its data.
    std::map<std::string, std::uint64_t> held_out = {};
  };
  // What a worker told last.
  struct Told {
    proto::Evaluation evaluation;     // of no samples: none yet
    std::optional<double> loss = {};  // of its last steps
    double loss_samples = 0;          // that have counted, of its training loss
    std::uint32_t largest_batch = 0;  // of its directives
    bool overstated = false;          // it claims more samples than count; that was said
    bool absurd = false;              // its figures were left out of a mean; that was said
  };
  struct Merged {
    double loss = 0;
    double accuracy = 0;             // or R^2; NaN: nobody measures it
    std::optional<double> gap = {};  // the median of theirs, which no single one can move far
  };

  // Lifetime: `roster`, longer than this.
  LossMerge(Options options, const Roster& roster)
      : options_(std::move(options)), roster_(roster) {}

  void on_join() { told_.emplace_back(); }
  void on_directive(WorkerId worker, std::uint32_t batch);
  // Requires: its totals have been checked.
  void on_progress(WorkerId worker, const proto::Progress& progress);
  void on_evaluation(WorkerId worker, const proto::Evaluation& evaluation);
  // The shards went back: what was trained since does not count.
  void on_set_back() { training_.clear(); }

  // Of all that workers have held out: what one evaluator would measure on all of it, but for the
  // time between. Nothing: nobody has evaluated since the last one.
  std::optional<Merged> evaluations();
  // Of the samples that all have trained on since the last one.
  std::optional<double> training_loss();

  // Warnings, for the log.
  std::optional<std::string> poll_line() { return lines_.poll(); }
  const Told& told(WorkerId worker) const { return told_[worker.value]; }

 private:
  struct LossSum {
    double loss = 0;  // of all samples together
    double samples = 0;
    double mean() const { return loss / samples; }
  };
  std::vector<WorkerId> measured() const;
  // So many of its samples count. A worker that never described its data counts for no more than
  // all others together.
  double counted(WorkerId worker, double of_all);
  // So many samples of its training loss count: no more than its steps had.
  double counted_samples(WorkerId worker, const proto::Progress& progress);
  // A figure above it is left out of a mean: kAbsurdFactor times the median of all members' last
  // ones, or of 1. A member without one counts as 0. Infinite: most have no number any more.
  double largest_believed(double (*figure)(const Told&)) const;
  // Once for each worker.
  void say_left_out(WorkerId worker, double loss);
  void say_overstated(WorkerId worker, const std::string& what);

  Options options_;
  const Roster& roster_;
  std::vector<Told> told_;                // by number
  std::map<WorkerId, LossSum> training_;  // since the last evaluation
  bool evaluated_ = false;                // a worker has evaluated since the last one
  std::size_t away_ = 0;                  // workers whose figures the last one had from before
  proto::Outbox<std::string> lines_;
};

}  // namespace rubato::scheduler
