// sync/steps_by_speed.hpp - local steps in proportion to speed: a commit of each worker takes about
// as long as `most` steps of the fastest one. Pure functions. Errors: none.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/time.hpp"

namespace rubato::sync {

// The speed of a worker, as a part of the fastest one's. Requires: it has reported a step time.
inline double speed_share(Duration fastest, Duration step_time) {
  return fastest.seconds() / step_time.seconds();
}

// At least one. A hair above, so that equal speeds measured a rounding apart count as equal.
inline std::uint32_t steps_by_speed(double share, int most) {
  return static_cast<std::uint32_t>(std::max(1.0, std::floor(share * most + 1e-6)));
}

// Whether a worker is told anew. Smaller changes are jitter.
inline bool steps_moved(std::uint32_t told, std::uint32_t steps) {
  constexpr double kMoved = 0.1;
  return std::abs(static_cast<double>(steps) - told) > kMoved * told;
}

}  // namespace rubato::sync
