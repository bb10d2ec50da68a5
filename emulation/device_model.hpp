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
class Lognormal {
 public:
  explicit Lognormal(double deviation);
  double factor(Rng& rng) const;

 private:
  double scale_ = 0;  // of the logarithm: its deviation
  double shift_ = 0;  // and how far below 0 its mean is
};
double lognormal_factor(Rng& rng, double deviation);

// A step of b samples takes step_seconds x (f + (1 - f) b / B) x jitter: f the fixed share, B the
// configured mini-batch.
class StepTimes {
 public:
  StepTimes(const DeviceModel& device, int batch, Rng rng)
      : device_(device), jitter_(device.jitter), batch_(batch), rng_(rng) {}
  // Requires: batch >= 1.
  Duration next(int batch) {
    const double f = device_.fixed_share;
    const double size = batch == batch_ ? 1 : f + (1 - f) * batch / batch_;
    return Duration::from_seconds(device_.step_seconds * size * jitter_.factor(rng_));
  }

 private:
  DeviceModel device_;
  Lognormal jitter_;
  int batch_;
  Rng rng_;
};

}  // namespace rubato::emulation
