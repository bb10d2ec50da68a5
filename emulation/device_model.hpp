// emulation/device_model.hpp - how long each mini-batch takes on the device that a worker stands
// for: the same numbers drive virtual time and the stretching of real steps.
// Pure: all randomness from the Rng given. Threads: one owner.
#pragma once

#include <cstdint>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "emulation/cluster_config.hpp"

namespace rubato::emulation {

// A lognormal factor of mean 1 and standard deviation `deviation` (>= 0; 0 gives exactly 1).
double lognormal_factor(Rng& rng, double deviation);

class StepTimes {
 public:
  StepTimes(const DeviceModel& device, Rng rng) : device_(device), rng_(rng) {}
  Duration next() {
    return Duration::from_seconds(device_.step_seconds * lognormal_factor(rng_, device_.jitter));
  }

 private:
  DeviceModel device_;
  Rng rng_;
};

}  // namespace rubato::emulation
