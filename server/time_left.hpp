// server/time_left.hpp - how long a run may still take: until the loss or accuracy reaches its
// target, or time or steps their limit, whichever comes first.
// The loss falls roughly like 1/t, so 1/loss grows evenly. A line through the later half of the
// curve tells when it reaches the target. The same holds for 1/(1 - accuracy).
// Pure. Units: seconds since training started.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/run_record.hpp"
#include "server/stop_criterion.hpp"

namespace rubato::server {

// `curve`: the evaluations so far. Returns: never more than what max_seconds leaves. Empty: there
// is no limit, and the curve does not lead to the target yet.
std::optional<double> seconds_left(const StopOptions& stop, std::span<const EvaluationRecord> curve,
                                   double seconds, std::uint64_t steps);

}  // namespace rubato::server
