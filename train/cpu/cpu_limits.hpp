// train/cpu/cpu_limits.hpp - the limits of one thread of this host.
#pragma once

#include "train/device_limits.hpp"

namespace rubato::train {

DeviceLimits cpu_limits(Duration time);

}  // namespace rubato::train
