// sync/tempo.hpp - Rubato's own model: it finds the global rate and the local rate of every worker
// while the run goes (docs/tempo.md). Nothing is set by hand.
// Letters:
// - k: the global rate in units of 1/m, the weight of commits. h: its level, k of commits that take
//   no time.
// - l: the part of the learning rate that local steps take, from min(1, k)/m to 1. At the least a
//   worker moves no farther than its commit will move the global parameters. It is at least 0.2 if
//   commits take several steps.
// - e: a step of a worker counts as (its steps a second)^-e. At 0 all steps count alike, and data
//   of slow workers count for little.
// - B: a byte budget of the whole cluster, where there is one. Commits are then 2 m bytes(W) / B
//   apart, so that all commit equally often.
// Bounds: 1/32 <= k <= 4, and at most m/2 (or 2), so that no commit moves the parameters farther
// than half the way to where its worker is. k and l stay below what the held-out loss has shown to
// be too much (sync/rate_cap.hpp).
// Pure. Threads: one owner. Errors: none.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "sync/queued_tuner.hpp"
#include "sync/rate_cap.hpp"

namespace rubato::sync {

struct TempoOptions {
  double bytes_per_second = 0;  // byte budget of the whole cluster; 0 is none
};

// Commits at every mini-batch end, but not sooner than a given time after the commit before. That
// time is 0 until the tuner has set it.
class CommitSpacing final : public CommitRule {
 public:
  void on_start(Instant, bool) override {}
  bool on_step_end(Instant now) override { return !last_ || now - *last_ >= period_; }
  void on_commit_sent(Instant now) override { last_ = now; }
  void on_reply(Instant, Duration) override {}
  void on_directive(Instant, const Directive& directive) override { period_ = directive.period; }

 private:
  Duration period_;
  std::optional<Instant> last_;
};

class TempoTuner final : public QueuedTuner {
 public:
  // parameter_bytes: bytes(W) on the wire, for the byte budget. momentum: of the servers'
  // optimizer; 0 is none.
  TempoTuner(const TempoOptions& options, std::uint64_t parameter_bytes, double momentum = 0);

  void on_start(Instant now) override;
  void on_join(Instant now, WorkerId worker) override;
  void on_leave(Instant now, WorkerId worker) override;
  void on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) override;
  void on_evaluation(Instant now, const EvaluationPoint& point) override;

 private:
  struct Rates {
    double global = 1;  // k
    double local = 0;   // l
    double quick = 0;   // steps that a commit may take to be waited for
    double even = 0;    // e

    bool moved(const Rates& from, double by) const;  // by so much, or by so many parts
  };
  double workers() const { return static_cast<double>(members().size()); }  // m
  bool has_budget() const { return options_.bytes_per_second > 0; }
  Duration spacing() const;  // of each worker's commits
  Directive directive(WorkerId worker) const;
  void order_members();
  // Steps a second of this member; 0: not timed.
  double pace(const WorkerProgress& progress) const;
  // Adds the part of h that this worker's commits leave to the sum over all; -1 takes it out.
  void count_part(const WorkerProgress& progress, int times);
  // Workers wait for commits that take less than so many steps.
  void wait_within(double steps);
  // Most members make more than a step while a commit travels.
  bool has_long_commits() const;
  // Updates lie along or against each other or the way of all: they are more than noise.
  bool are_clear() const;
  // k from h and the members' commits, and both rates within their bounds.
  void set_rates();
  void follow(WorkerId worker, const Alignment& alignment);
  // e from how far the updates of slow workers resemble each other more than those of quick ones.
  void even_out();
  double farthest() const;  // the weight whose commit goes half the way
  // m/8, at most 1: what few workers have of h at the start, and of the least that a gap leaves.
  double part_of_many() const;
  double rise() const;  // of h after a round without noise: a factor
  // h from the part by which the loss of the parameters is above that of their average. falls: the
  // lower of the two is below that of the evaluation before.
  void heed(Instant now, double gap, bool falls);
  // To the shards: sync/keeping_gate.hpp has what can be ordered.
  void order_shards(std::uint32_t what) { set_phase({.number = phase().number + what}); }
  // Tells the workers when the rates have moved by a twentieth, the log when by a third.
  void announce(Instant now);
  void tell(Instant now, const std::string& reason);

  const TempoOptions options_;
  const double parameter_bytes_;
  const double momentum_;
  bool started_ = false;
  std::uint64_t commits_ = 0;  // since a loss was judged: one a round
  double level_ = 1;           // h
  bool starts_ = false;        // h has been neither 1 nor too high
  double parts_ = 0;           // of h, a sum over the members whose commits have been timed
  int timed_ = 0;
  Rates rates_, ordered_, logged_;
  RateCap cap_;
  double last_loss_ = std::numeric_limits<double>::infinity();  // that was judged
  double local_max_ = 1;  // of l: less once the loss rose, and given back as k's bound is
  bool risen_ = false;    // the loss, and it has not been as low again
  double agreement_ = 0;  // EWMA over reports: above 0 where workers pull each its own way
  Alignment lately_;      // EWMA over reports
  std::map<WorkerId, double> own_;  // of each member, EWMA over its reports
  double even_scale_ = 1;           // keeps the sum over all steps of a second at any e
};

}  // namespace rubato::sync
