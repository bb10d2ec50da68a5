// emulation/throttle/shaper.hpp - one direction of a host's link, in real time: when each byte of
// each connection has passed it. Bytes are counted here; emulation/throttle/relay.hpp moves them.
// The connections share the rate in turns of one small segment, so a short message does not wait
// behind megabytes of another connection. What has passed arrives a latency later. Bytes of one
// connection keep their order.
// A driver that wakes up late loses no rate: segments begin when the link became free, not when the
// driver noticed it.
// Source of fair turns: Nagle, RFC 970.
// Pure: `now` goes in, and never decreases. Units: bytes, bytes per second. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"

namespace rubato::emulation {

// One direction of a link.
struct OneWay {
  double bytes_per_second = 0;  // 0: unlimited
  double latency_seconds = 0;
  double jitter = 0;  // deviation of the latency, as a fraction of it (lognormal)
  double loss = 0;    // part of the packets that are lost once (emulation/packet_loss.hpp)
};

class Shaper {
 public:
  using Flow = std::uint32_t;  // a connection

  Shaper(const OneWay& link, Rng rng);

  Flow open();
  // Forgets the flow and what it has under way. Its number may be used again.
  void close(Flow flow);

  // How many more bytes may wait for their turn. 0 holds the sender back.
  std::size_t room(Flow flow) const;
  // Requires: bytes <= room(flow).
  void offer(Instant now, Flow flow, std::size_t bytes);

  // Lets pass whatever can. Returns: whether the link is free for more at once.
  bool advance(Instant now);
  // Nobody has more to offer now. A link that is free stays so until the next offer. Without this
  // word it makes up for the time since it became free.
  void rest(Instant now);
  // When to call advance(), rest(), and arrived() of each flow again.
  std::optional<Instant> poll_wakeup() const;

  // How many bytes have arrived and were not taken.
  std::size_t arrived(Instant now, Flow flow);
  void take(Flow flow, std::size_t bytes);
  // A flow whose receiver takes no more has no turns.
  void hold(Flow flow, bool held) { flows_[flow].held = held; }

  // From `now` on the link is another one. What has passed already arrives as it would have.
  void change(Instant now, const OneWay& link);
  // Nothing passes before `until`: of all, or of one flow.
  void cut(Instant until) { cut_until_ = until; }
  void cut(Flow flow, Instant until) { flows_[flow].cut_until = until; }

 private:
  struct Passed {
    Instant arrives;
    std::size_t bytes = 0;
  };
  // A burst is what passes without a gap, up to some size. It shares one draw of the latency.
  struct Burst {
    Instant last;  // byte has passed
    std::size_t bytes = 0;
    Duration latency;
  };
  struct State {
    bool open = false;
    bool held = false;
    bool in_turn = false;     // in turns_
    std::size_t waiting = 0;  // bytes that wait for their turn
    std::size_t in_line = 0;  // bytes in `line`
    std::size_t arrived = 0;
    std::deque<Passed> line;  // what has passed, in the order of arrival
    Instant last_arrival;
    Instant cut_until;
    std::optional<Burst> burst;
  };

  bool may_pass(const State& state) const;
  void join(Flow flow);
  void pass(State& state, std::size_t bytes);
  Duration latency_of(State& state, Instant begins, std::size_t bytes);

  OneWay link_;
  Rng rng_;
  std::size_t segment_ = 0;      // bytes of a turn
  std::size_t waiting_max_ = 0;  // of a flow
  std::vector<State> flows_;
  std::deque<Flow> turns_;  // flows with waiting bytes
  Instant free_at_;         // when the link has passed what it is passing
  bool idle_ = true;
  Instant cut_until_;
  Instant now_;
};

}  // namespace rubato::emulation
