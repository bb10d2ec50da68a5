// worker/exchange_meter.hpp - what one pull or commit took, there and back.
// Pure. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace rubato::worker {

struct ExchangeMeasured {
  Duration round_trip;           // without the gate's part
  Duration held;                 // the gate's part
  std::optional<Duration> ping;  // of the farthest server; nothing: not all have answered it
  std::uint64_t sent = 0;        // bytes of payloads
  std::uint64_t received = 0;
  bool streamed = false;  // chunks were answered one by one, while others still went up
};

class ExchangeMeter {
 public:
  void begin(Instant now) {
    *this = {};
    began_ = now;
  }
  Duration since_begin(Instant now) const { return now - began_; }
  void on_sent(std::uint64_t bytes) {
    sent_ += bytes;
    ++chunks_;
  }
  void on_received(std::uint64_t bytes) { received_ += bytes; }
  // A chunk was acknowledged without parameters: the gate holds.
  void on_acknowledged() { acknowledged_ = true; }
  // A server answered the ping that went ahead of the bytes.
  void on_ping(Instant now) {
    ping_ = std::max(ping_, since_begin(now));
    ++pinged_;
  }
  // All of it is over, with so many servers.
  ExchangeMeasured end(Duration round_trip, Duration held, std::size_t servers) const {
    return {.round_trip = round_trip,
            .held = held,
            .ping = pinged_ >= servers ? std::optional(ping_) : std::nullopt,
            .sent = sent_,
            .received = received_,
            .streamed = chunks_ > servers && !acknowledged_};
  }

 private:
  Instant began_;
  Duration ping_;
  std::size_t pinged_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::size_t chunks_ = 0;
  bool acknowledged_ = false;
};

}  // namespace rubato::worker
