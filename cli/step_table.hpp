// cli/step_table.hpp - measured training steps beside the limits of their device, as text.
// Pure. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/terminal.hpp"
#include "cli/calibration.hpp"
#include "train/device_limits.hpp"

namespace rubato::cli {

// "limits: 92.3 GFLOP/s in a large product, 11.2 GB/s in a large copy", and the way to the host and
// back where there is one.
std::string limits_line(const train::DeviceLimits& limits);

// The better of each figure: a machine may have been busy when it was measured.
train::DeviceLimits best_of(train::DeviceLimits a, const train::DeviceLimits& b);

// One row a step: time, samples a second, FLOP/s and bytes a second with their shares of the
// limits, and what the shares mean. Returns: the lines, without an end of the last.
std::string step_table(const std::vector<MeasuredStep>& steps, const train::DeviceLimits& limits,
                       std::size_t width = kAnyWidth);

}  // namespace rubato::cli
