// emulation/device_model.hpp - how long each mini-batch takes on the device that a worker stands
// for: the same numbers drive virtual time and the stretching of real steps.
// Pure: all randomness from the Rng given. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "cluster/cluster_plan.hpp"

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

// Is `seconds` after the first step in a spell?
bool slow_at(const cluster::SlowSpells& slow, double seconds);

// What `drift` an hour has made of 1 `at` that time: (1 + drift)^hours; exactly 1 without drift.
double drift_factor(double drift, Duration at);

// A step of b samples takes step_seconds x (f + (1 - f) b / B) x jitter, times the factor of a slow
// spell that it begins in, times (1 + drift)^h, divided by the speed of a trace at its beginning: f
// the fixed share, B the configured mini-batch, h the hours from time 0 to its beginning.
class StepTimes {
 public:
  // `trace`: its speed changes with time; null, or without one: it does not.
  StepTimes(const cluster::DeviceModel& device, int batch, Rng rng,
            std::shared_ptr<const cluster::NodeTrace> trace = nullptr)
      : device_(device),
        jitter_(device.jitter),
        batch_(batch),
        rng_(rng),
        trace_(trace && !trace->speed.empty() ? std::move(trace) : nullptr) {}
  // Time 0 of the trace and the drift. Without this word it is the first step.
  void begin_clock(Instant at) { clock_began_ = at; }
  // Of the step that begins at `now`. Requires: batch >= 1.
  Duration next(Instant now, int batch) {
    const double f = device_.fixed_share;
    const double size = batch == batch_ ? 1 : f + (1 - f) * batch / batch_;
    const auto takes =
        Duration::from_seconds(device_.step_seconds * size * jitter_.factor(rng_) * slowness(now));
    return std::max(takes, Duration{1});
  }

 private:
  double slowness(Instant now) {
    if (!began_) began_ = now;
    const double spell = slow_at(device_.slow, (now - *began_).seconds()) ? device_.slow.factor : 1;
    if (!clock_began_) clock_began_ = now;
    const Duration at = std::max(now - *clock_began_, Duration{});
    const double drifted = drift_factor(device_.drift, at);
    return spell * drifted / (trace_ ? trace_->speed.at(at) : 1);
  }

  cluster::DeviceModel device_;
  Lognormal jitter_;
  int batch_;
  Rng rng_;
  std::optional<Instant> began_;  // the first step
  std::shared_ptr<const cluster::NodeTrace> trace_;
  std::optional<Instant> clock_began_;
};

// How long the steps of worker `index` take.
StepTimes make_step_times(const cluster::ClusterPlan& plan, std::uint32_t index);

}  // namespace rubato::emulation
