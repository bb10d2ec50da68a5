#include "worker/forward_clock.hpp"

#include <algorithm>

namespace rubato::worker {

void ForwardClock::begin(std::span<const train::ForwardLayer> layers, Instant now, Duration step,
                         std::uint64_t arrived) {
  layers_ = layers;
  begun_ = 0;
  free_ = now;
  step_ = left_ = step;
  on_arrived(now, arrived);
}

void ForwardClock::on_arrived(Instant now, std::uint64_t arrived) {
  for (; begun_ < layers_.size() && layers_[begun_].end <= arrived; ++begun_) {
    const Duration takes = step_ * layers_[begun_].share;
    free_ = std::max(free_, now) + takes;
    left_ -= takes;
  }
}

std::optional<Instant> ForwardClock::end() const {
  if (begun_ < layers_.size()) return std::nullopt;
  return free_ + left_;
}

}  // namespace rubato::worker
