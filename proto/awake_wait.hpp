// proto/awake_wait.hpp - whether a thread should stay awake for the message that it waits for.
// To fall asleep and be woken takes 20 to 50 us of a round trip where an idle core stops, as those
// of virtual machines do. So after some short waits for one peer the next begins awake, and lets
// other threads run between two looks. It pays in a conversation of small messages. Whoever
// computes between messages waits for long, and sleeps; so does whoever talks to several peers:
// what has come meanwhile is cheaper together than one by one.
// Where others want the core it does not stop, and there is nothing to stay awake for. A wait that
// began awake and was long doubles the number of short ones to be seen before the next.
// Pure. Threads: one owner.
#pragma once

#include <algorithm>
#include <utility>

#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

class AwakeWait {
 public:
  static constexpr Duration kShort = Duration{200'000};  // a round trip between sleepers, and spare
  static constexpr Duration kAloneMax = Duration{20'000};  // what ZeroMQ's own thread may need
  static constexpr int kShortMin = 4;                      // short waits in a row
  static constexpr int kShortMax = 4096;

  // A wait begins. Returns whether it does so awake.
  bool begin(Instant now) {
    began_ = looked_ = now;
    awake_ = in_a_row_ >= needed_;
    return awake_;
  }
  // Others could run since the last look, which found nothing. Returns whether to look again.
  bool stay(Instant now) {
    const Duration away = now - std::exchange(looked_, now);
    return away < kAloneMax && now - began_ < kShort;
  }
  // It ends with a message of `from`, or without one: 0.
  void end(Instant now, PeerId from) {
    const bool was_short = now - began_ <= kShort;
    if (awake_)
      needed_ = was_short ? std::max(needed_ / 2, kShortMin) : std::min(needed_ * 2, kShortMax);
    const bool same = from == 0 || std::exchange(peer_, from) == from;
    in_a_row_ = was_short && same ? std::min(in_a_row_ + 1, kShortMax) : 0;
  }
  // The short waits so far count no more.
  void forget() { in_a_row_ = 0; }

 private:
  Instant began_;
  Instant looked_;
  bool awake_ = false;
  PeerId peer_ = 0;  // whose message came last
  int in_a_row_ = 0;
  int needed_ = kShortMin;
};

}  // namespace rubato::proto
