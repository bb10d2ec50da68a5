// base/growing_interval.hpp - the time between two lines that say nearly the same: each is twice as
// long as the one before, so that a log of a long run stays short. Pure.
#pragma once

#include <algorithm>
#include <string>

#include "base/time.hpp"

namespace rubato {

class GrowingInterval {
 public:
  constexpr explicit GrowingInterval(Duration first, Duration most = Duration::from_seconds(300))
      : first_(first), most_(most), next_(first) {}

  Duration next() {
    const Duration interval = next_;
    next_ = std::min(interval + interval, most_);
    return interval;
  }
  void restart() { next_ = first_; }

 private:
  Duration first_, most_, next_;
};

// A line that is said when it changes, and more and more rarely while it stays the same.
class RepeatedLine {
 public:
  constexpr explicit RepeatedLine(Duration first) : interval_(first) {}

  // Returns: whether `line` is to be said now; then it counts as said.
  bool due(Instant now, const std::string& line) {
    if (line == said_ && now < again_) return false;
    if (line != said_) interval_.restart();
    said_ = line;
    again_ = now + interval_.next();
    return true;
  }

 private:
  GrowingInterval interval_;
  std::string said_;
  Instant again_;
};

}  // namespace rubato
