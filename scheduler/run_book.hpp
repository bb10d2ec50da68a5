// scheduler/run_book.hpp - what is written down of a run: the totals of each worker, the curves and
// the decisions. They make the RunRecord.
// Pure. Memory: the evaluations, and commit counts of kCommitCountsMax of them. Threads: one owner.
// Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/run_record.hpp"
#include "base/task.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"
#include "scheduler/exclusion.hpp"
#include "scheduler/loss_merge.hpp"
#include "scheduler/roster.hpp"
#include "scheduler/run_phase.hpp"

namespace rubato::scheduler {

class RunBook {
 public:
  static constexpr std::size_t kEvaluationsMax = 8192;

  void on_join() { progress_.emplace_back(); }
  // Totals only grow, and no faster than any worker trains. `member_for`: since it joined.
  bool is_possible(WorkerId worker, const proto::Progress& progress, Duration member_for) const;
  // Requires: is_possible().
  void on_progress(WorkerId worker, const proto::Progress& progress);
  // `t`: seconds since training started.
  // Keeps the first, the newest and, of a long run, each so-many-th between.
  void on_evaluation(double t, double loss, double accuracy, const ClassFigures& classes);
  void on_decision(DecisionRecord decision) { record_.decisions.push_back(std::move(decision)); }

  // Of all workers together.
  std::uint64_t steps() const { return steps_; }
  std::uint64_t commits() const { return commits_; }
  // Its last totals.
  const proto::Progress& progress(WorkerId worker) const { return progress_[worker.value]; }
  const std::vector<EvaluationRecord>& evaluations() const { return record_.evaluations; }
  // Of all evaluations; infinity before the first.
  double lowest_loss() const { return lowest_loss_; }
  // What these know of the run so far. The caller fills in what is its own: names, seed, target.
  RunRecord record(const Roster& roster, const Run& run, const LossMerge& losses,
                   const Exclusion& exclusion) const;

 private:
  double heterogeneity(const Roster& roster) const;

  std::vector<proto::Progress> progress_;  // by number
  std::uint64_t steps_ = 0;    // the sum of progress_, so that no event has to visit every worker
  std::uint64_t commits_ = 0;  // the sum of progress_
  double lowest_loss_ = std::numeric_limits<double>::infinity();
  std::uint64_t evaluated_ = 0;  // so often
  std::size_t kept_each_ = 1;    // every so-many-th evaluation stays
  std::size_t stride_ = 1;       // commit counts are kept at every so-many-th evaluation
  RunRecord record_;             // curves and decisions alone
};

}  // namespace rubato::scheduler
