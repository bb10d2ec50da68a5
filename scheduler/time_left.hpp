// scheduler/time_left.hpp - how long a run may still take: until the loss or accuracy reaches its
// target, or time or steps their limit, whichever comes first. Where the target's time cannot be
// told well, nothing is said.
// The loss falls roughly like a power of the time: its logarithm over that of the time is a line.
// The line through the later part of the curve tells when it meets the target. It is believed where
// it has said nearly the same for a while. The same holds for 1 - accuracy.
// Pure. Units: seconds since training started.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/run_record.hpp"
#include "scheduler/stop_criterion.hpp"

namespace rubato::scheduler {

// `curve`: the evaluations so far. Returns: a number above 0. Empty: not known, or the time that
// was left is over.
std::optional<double> seconds_left(const StopOptions& stop, std::span<const EvaluationRecord> curve,
                                   double seconds, std::uint64_t steps);

}  // namespace rubato::scheduler
