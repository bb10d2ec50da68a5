// scheduler/run_phase.hpp - the phase that a run is in: it gathers its nodes, trains, ends step by
// step, is over.
//
//     Gathering ──► Training ──► LastCommits ──► LastPull ──► LastSave ──► ServersEnd ──► Over
//         └─────────────────────────▲ (a run may end before it trains)
//
// Another process that takes up a run which is over, or ends, begins its end again: LastCommits.
// Pure. Threads: one owner. Errors: none; a phase that may not follow is a bug.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/time.hpp"

namespace rubato::scheduler {

enum class RunPhase {
  Gathering,    // the first workers are not here yet, or may not train yet
  Training,     // from the first Start on, whether a worker is here or not
  LastCommits,  // the workers have been told of the end, and some have not left yet
  LastPull,     // the evaluator has been told, and pulls the parameters a last time
  LastSave,     // the servers keep a last snapshot, from which the run can go on
  ServersEnd,   // the servers have been told, and some have not said farewell yet
  Over          // nobody is waited for any more
};

// Whether a run may come from `before` to `next`.
constexpr bool may_follow(RunPhase before, RunPhase next) {
  switch (next) {
    case RunPhase::Gathering:
      return false;
    case RunPhase::Training:
      return before == RunPhase::Gathering;
    case RunPhase::LastCommits:
      return true;
    case RunPhase::LastPull:
      return before == RunPhase::LastCommits;
    case RunPhase::LastSave:
      return before == RunPhase::LastPull;
    case RunPhase::ServersEnd:
      return before == RunPhase::LastSave;
    case RunPhase::Over:
      return before == RunPhase::ServersEnd;
  }
  return false;
}

class Run {
 public:
  RunPhase phase() const { return phase_; }
  bool gathering() const { return phase_ == RunPhase::Gathering; }
  bool training() const { return phase_ == RunPhase::Training; }
  // The end has begun; it may be over.
  bool stopped() const { return phase_ >= RunPhase::LastCommits; }
  bool over() const { return phase_ == RunPhase::Over; }

  const std::optional<Instant>& started() const { return started_; }
  const std::optional<std::string>& stop_reason() const { return reason_; }
  bool failed() const { return failed_; }
  // Since training started; 0 before.
  double seconds(Instant at) const { return started_ ? (at - *started_).seconds() : 0; }
  // Seconds of training at the end, or at `now` before it.
  double length(Instant now) const { return seconds(stopped() ? stopped_at_ : now); }
  // Until when the step of the end waits. Nothing: it is no step of the end that waits.
  std::optional<Instant> until() const {
    return stopped() && !over() ? std::optional(until_) : std::nullopt;
  }
  bool waited_enough(Instant now) const { return now >= until_; }

  // Training begins.
  void start(Instant now) {
    move_to(RunPhase::Training);
    started_ = now;
  }
  // The end begins, and waits for the workers until `until`. `failed`: the run cannot go on.
  // Requires: !stopped().
  void stop(Instant now, std::string reason, bool failed, Instant until) {
    RUBATO_CHECK(!stopped(), "a run stops once");
    reason_ = std::move(reason);
    failed_ = failed;
    stopped_at_ = now;
    move_to(RunPhase::LastCommits);
    until_ = until;
  }
  // Another process begins the end again. Requires: stopped().
  void stop_again(Instant until) {
    RUBATO_CHECK(stopped(), "an end that has begun");
    move_to(RunPhase::LastCommits);
    until_ = until;
  }
  // The next step of the end, which waits until `until`.
  void end_step(RunPhase next, Instant until) {
    RUBATO_CHECK(stopped(), "a step of the end");
    move_to(next);
    until_ = until;
  }
  // This step of the end waits for nobody from now on.
  void hurry(Instant now) { until_ = now; }

 private:
  void move_to(RunPhase next) {
    RUBATO_CHECK(may_follow(phase_, next), "a phase that may follow");
    phase_ = next;
  }

  RunPhase phase_ = RunPhase::Gathering;
  std::optional<Instant> started_;     // once it trains; it stays
  std::optional<std::string> reason_;  // exactly when stopped()
  bool failed_ = false;                // only when stopped()
  Instant stopped_at_;                 // when stopped(); a second end does not change it
  Instant until_;                      // when stopped() and not over()
};

}  // namespace rubato::scheduler
