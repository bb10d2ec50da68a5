// base/clock_offset.hpp - how far another machine's clock is ahead of ours, from questions and
// answers over a link whose delay is unknown.
// Source: Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989: the other
// clock was read between question and answer, so the midpoint is off by at most half the round
// trip. The best of the last samples counts, an old one less since clocks drift apart.
// Two processes of one host read the same clock. When no sample contradicts that, it is so: hosts
// that started within a round trip of each other are not to be expected.
// Pure. Units: Instants of the two clocks. Threads: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/time.hpp"

namespace rubato {

class ClockOffset {
 public:
  static constexpr std::size_t kSamplesMax = 16;
  // Quartz clocks differ by less: 100 microseconds a second.
  static constexpr double kDriftMax = 1e-4;

  // We asked at `asked`, the other side read `theirs`, we had the answer at `answered`. A sample
  // whose answer came before its question is none.
  void add(Instant asked, Instant theirs, Instant answered);

  struct Estimate {
    Duration offset;  // theirs - ours
    Duration error;   // at most
  };
  // Empty before the first sample.
  std::optional<Estimate> estimate(Instant now) const;
  std::size_t samples() const { return count_; }

 private:
  struct Sample {
    Instant at;
    Duration offset;
    Duration error;
  };
  std::array<Sample, kSamplesMax> ring_;
  std::size_t count_ = 0;  // ever
};

}  // namespace rubato
