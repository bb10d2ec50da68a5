// worker/forward_clock.hpp - when a step ends that began while its parameters were arriving, on a
// device that is only modelled. Each layer of the way forward waits for its own parameters, then
// takes its time. What is left of the step follows the last layer.
// Pure: `now` never decreases. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/time.hpp"
#include "train/model/forward_layers.hpp"

namespace rubato::worker {

class ForwardClock {
 public:
  // A step begins that takes `step` if it waits for nothing; as on_arrived(). Lifetime: `layers`
  // outlive it.
  void begin(std::span<const train::ForwardLayer> layers, Instant now, Duration step,
             std::uint64_t arrived);
  // The first `arrived` parameters of the model are here.
  void on_arrived(Instant now, std::uint64_t arrived);
  // When the step ends; known once all parameters are here.
  std::optional<Instant> end() const;

 private:
  std::span<const train::ForwardLayer> layers_;
  std::size_t begun_ = 0;  // layers whose parameters are here
  Instant free_;           // when the last of those is over
  Duration step_;
  Duration left_;  // of the step, after those
};

}  // namespace rubato::worker
