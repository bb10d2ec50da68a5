// train/layer_clock.hpp - which part of a step took how long: what a device that was asked for it
// notes while it computes. A lap costs some 0.3 us.
// Units: seconds of the thread's processor time, summed over steps. Errors: none. Threads: one
// owner, which computes.
#pragma once

#include <cstddef>
#include <vector>

#include "base/thread_time.hpp"

namespace rubato::train {

// The parts of a step behind the layers of the model, in the order of train/model/step_work.hpp.
enum class StepPart : std::size_t { Layout, Loss, Update };
inline constexpr std::size_t kStepParts = 3;

class LayerClock {
 public:
  explicit LayerClock(std::size_t layers) : layers_(layers), seconds_(layers + kStepParts) {}

  // What follows is timed.
  void start() { last_ = thread_now(); }
  // All since the last lap belongs to this layer, counted from 0.
  void lap(std::size_t layer) {
    const Instant now = thread_now();
    seconds_[layer] += (now - last_).seconds();
    last_ = now;
  }
  void lap(StepPart part) { lap(layers_ + static_cast<std::size_t>(part)); }
  // Returns: what the layers took, then the parts behind them; everything is 0 again.
  std::vector<double> take() {
    std::vector<double> taken(seconds_.size());
    taken.swap(seconds_);
    return taken;
  }

 private:
  std::size_t layers_;
  std::vector<double> seconds_;
  Instant last_;
};

// What a stage of a device is told: its clock, if it has one, and where its layers begin.
struct StageClock {
  LayerClock* clock = nullptr;
  std::size_t first = 0;

  void lap(std::size_t layer) const {
    if (clock) clock->lap(first + layer);
  }
  void lap(StepPart part) const {
    if (clock) clock->lap(part);
  }
};

}  // namespace rubato::train
