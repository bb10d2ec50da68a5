// cluster/evaluation_pace.hpp - which of the parameters that a worker loads are measured on samples
// of its own. Pure: time goes in. Threads: one owner.
#pragma once

#include <optional>

#include "base/time.hpp"

namespace rubato::cluster {

class EvaluationPace {
 public:
  // From one measurement to the next, at least. Nothing: somebody else evaluates.
  explicit EvaluationPace(std::optional<Duration> every) : every_(every) {}

  // Parameters were loaded. Returns: whether they are to be measured.
  bool on_load(Instant now) {
    if (!every_ || (next_ && now < *next_)) return false;
    next_ = now + *every_;
    loaded_at_ = now;
    return true;
  }
  // Since when those that were measured last have been there.
  Instant loaded_at() const { return loaded_at_; }

 private:
  std::optional<Duration> every_;
  std::optional<Instant> next_;
  Instant loaded_at_;
};

}  // namespace rubato::cluster
