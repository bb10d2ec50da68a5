// cluster/step_pace.hpp - keeps the mean of stretched steps: a step should take as long as on the
// device that it stands for, less what earlier ones took too long. On a busy machine a thread wakes
// up late, or computes slowly. Up to 10 s are made up for; more is given up, and counts as late.
// Pure: time goes in. Threads: one owner.
#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"

namespace rubato::cluster {

class StepPace {
 public:
  // When a step should end that would end at `nominal` if nothing were owed.
  Instant due(Instant nominal) const { return nominal - owed_; }
  // It was to take `asked`, and ended now. Requires: now >= due(nominal).
  void on_end(Instant nominal, Instant now, Duration asked);
  // How much longer than that all steps took.
  Duration late() const { return owed_ + given_up_; }
  // A line for the log after a minute in which steps took too long in the mean; else nothing.
  std::optional<std::string> poll_warning();

 private:
  Duration owed_;
  Duration given_up_;
  // Of the minute under way.
  std::optional<Instant> since_;
  Duration asked_;
  Duration took_;
  std::int64_t steps_ = 0;
  std::optional<std::string> warning_;
};

}  // namespace rubato::cluster
