// proto/clock_sync.hpp - a node's estimate of the scheduler's clock: now and then a message that
// goes there anyway carries the node's own clock, and the scheduler answers with its own.
// Pure: `now` is the node's clock. Used only while profiling. Threads: one owner.
#pragma once

#include <optional>

#include "base/clock_offset.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

class ClockSync {
 public:
  // Between two questions, once there are ClockOffset::kSamplesMax answers.
  static constexpr Duration kAskEvery = Duration::from_ms(500);

  // A message of ours is about to be sent: makes it a question if it goes to the scheduler and one
  // is due.
  void on_send(Instant now, Message& message);
  // Returns: whether it was an answer, so that the estimate is a new one.
  bool on_message(Instant now, const Message& message);
  std::optional<ClockOffset::Estimate> estimate(Instant now) const { return offset_.estimate(now); }

 private:
  ClockOffset offset_;
  Instant asked_;  // last
};

}  // namespace rubato::proto
