// sync/overhead_mean.hpp - the moving mean of what commits cost that a worker tells of itself: it
// begins at 0, and each commit makes half of it new.
// Pure. Threads: any. Errors: none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/time.hpp"

namespace rubato::sync {

inline constexpr double kOverheadEwma = 0.5;  // more than of a step's time: it changes more

// After one more commit, which cost `overhead`.
inline Duration overhead_mean(Duration mean, Duration overhead) {
  return mean * (1 - kOverheadEwma) + overhead * kOverheadEwma;
}

// What the last `commits` cost each, if all cost the same: they moved the mean from `before` to
// `now`. A mean that fell further than commits can move it began anew at 0, with a new process.
// Requires: commits >= 1.
inline Duration overhead_of_last(Duration before, Duration now, std::uint64_t commits) {
  const double kept = std::pow(1 - kOverheadEwma, static_cast<double>(commits));
  const Duration left = before * kept;
  return (now - (left < now ? left : Duration{})) * (1 / (1 - kept));
}

}  // namespace rubato::sync
