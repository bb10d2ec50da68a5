// train/cpu/cpu_rates.hpp - measures what one thread of this host can do, for predictions of steps
// (train/step_time.hpp): kernels of the device "cpu" over their sizes, copies, and the smallest
// call. The least of several short repeats counts, in turns over all kernels, since other programs
// disturb some of them.
// Threads: the caller's, and as many more as are asked for. Errors: Stopped; Unsupported, where the
// device refuses a layer.
#pragma once

#include <functional>
#include <stop_token>

#include "base/result.hpp"
#include "train/step_time.hpp"

namespace rubato::train {

struct RateOptions {
  int threads = 1;  // that compute at once; each does the same
  int rounds = 3;   // over all kernels
  // After each round: what is to be measured in turns with the kernels. Its error ends all.
  std::function<Result<void>()> between = {};
};

[[nodiscard]] Result<DeviceRates> measure_rates(const RateOptions& options,
                                                const std::stop_token& stop = {});

}  // namespace rubato::train
