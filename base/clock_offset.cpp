#include "base/clock_offset.hpp"

#include <algorithm>

namespace rubato {

void ClockOffset::add(Instant asked, Instant theirs, Instant answered) {
  if (answered < asked) return;
  const Duration half{(answered - asked).ns / 2};
  // Half a round trip of odd length is rounded up in the bound.
  const Duration bound{(answered - asked).ns - half.ns};
  ring_[count_++ % kSamplesMax] = {answered, theirs - (asked + half), bound};
}

std::optional<ClockOffset::Estimate> ClockOffset::estimate(Instant now) const {
  std::optional<Estimate> best;
  bool same_clock = true;
  for (std::size_t i = 0; i < std::min(count_, kSamplesMax); ++i) {
    const Sample& sample = ring_[i];
    const Duration error = sample.error + std::max(now - sample.at, Duration{}) * kDriftMax;
    same_clock &= sample.offset <= sample.error && sample.offset >= Duration{} - sample.error;
    if (!best || error < best->error) best = {sample.offset, error};
  }
  if (best && same_clock) return Estimate{};
  return best;
}

}  // namespace rubato
