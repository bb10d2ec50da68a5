// train/best_time.hpp - the shortest of several runs, by the clock.
#pragma once

#include <algorithm>
#include <limits>

#include "base/time.hpp"

namespace rubato::train {

// Seconds of the shortest run that fits into `time`, of 3 runs at least, after one that counts for
// nothing.
template <class Run>
double best_seconds(Duration time, Run run) {
  run();
  double best = std::numeric_limits<double>::infinity();
  const Instant begin = steady_now();
  Instant now = begin;
  for (int runs = 0; runs < 3 || now - begin < time; ++runs) {
    run();
    const Instant end = steady_now();
    best = std::min(best, (end - now).seconds());
    now = end;
  }
  return best;
}

}  // namespace rubato::train
