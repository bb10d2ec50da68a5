// cluster/stretched_step.hpp - a step that lasts as long as on the device that its worker stands
// for: it is computed first, and then the rest of its time passes. step_pace.hpp keeps the mean.
// Pure: time goes in. Threads: one owner.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/time.hpp"
#include "cluster/step_pace.hpp"

namespace rubato::cluster {

class StretchedStep {
 public:
  // How long the step that begins now, of so many samples, should take at least.
  using Times = std::function<Duration(Instant, int)>;

  // Empty: steps are over when they are computed.
  explicit StretchedStep(Times times) : times_(std::move(times)) {}
  bool stretches() const { return times_ != nullptr; }

  // A step of so many samples begins.
  void begin(Instant now, int batch) {
    began_ = now;
    if (stretches()) takes_ = times_(now, batch);
  }
  Duration takes() const { return takes_; }
  // When it should end.
  Instant due() const { return began_ + takes_; }

  // It is computed, and goes on until due(), or until `end` where that is told.
  void on_computed(std::optional<Instant> end = std::nullopt) {
    nominal_ = end.value_or(due());
    ends_ = pace_.due(nominal_);
  }
  // When the step ends that is computed and not over; nothing: there is none.
  const std::optional<Instant>& ends() const { return ends_; }
  // Returns: true once, when that step is over.
  bool poll_over(Instant now) {
    if (!ends_ || now < *ends_) return false;
    pace_.on_end(nominal_, now, takes_);
    ends_.reset();
    return true;
  }
  // Both as in StepPace.
  Duration late() const { return pace_.late(); }
  std::optional<std::string> poll_warning() { return pace_.poll_warning(); }

 private:
  Times times_;
  StepPace pace_;
  Instant began_;
  Duration takes_;
  Instant nominal_;  // the end of the computed step, if nothing were owed
  std::optional<Instant> ends_;
};

}  // namespace rubato::cluster
