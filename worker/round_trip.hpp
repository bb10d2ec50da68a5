// worker/round_trip.hpp - how long a question and its answer take, and when an answer is overdue:
// the smoothed time and four times its variation. A slow link, and a server that is busy, make both
// longer by themselves.
// Source: RFC 6298, section 2. Samples of questions that went twice would count for the wrong one
// (Karn); ours have numbers.
// Pure. Threads: one owner.
#pragma once

#include <algorithm>
#include <utility>

#include "base/time.hpp"

namespace rubato::worker {

class RoundTrip {
 public:
  bool known() const { return known_; }

  void add(Duration sample) {
    if (!std::exchange(known_, true)) {
      smoothed_ = sample;
      variation_ = sample * 0.5;
      return;
    }
    const Duration off = std::max(sample - smoothed_, smoothed_ - sample);
    variation_ = variation_ * 0.75 + off * 0.25;
    smoothed_ = smoothed_ * 0.875 + sample * 0.125;
  }

  // Requires: known().
  Duration overdue() const { return smoothed_ + variation_ * 4; }

 private:
  bool known_ = false;
  Duration smoothed_;
  Duration variation_;
};

}  // namespace rubato::worker
