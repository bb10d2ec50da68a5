// server/peer_loop.hpp - drives a ServerCore or a Scheduler over a Transport in real time: one
// thread that owns both. Waits are bounded; a bad frame costs its sender one log line, and so do
// messages that a peer does not take, until it takes one again.
// Threads: the caller's, until the run is over or `stop` is requested.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/log.hpp"
#include "base/time.hpp"
#include "proto/loop_trace.hpp"
#include "proto/transport.hpp"

namespace rubato::server {

// How long a loop may be deaf to `stop` and to its own clock.
inline constexpr Duration kLoopWaitMax = Duration::from_ms(200);

// Peers of which a loop remembers something.
inline constexpr std::size_t kKnownPeersMax = 65'536;

// Chunks that a shard has added to its parameters; the scheduler has none.
template <class Core>
std::uint64_t chunks_applied(const Core& core) {
  if constexpr (requires { core.version(); }) return core.stats().chunks_applied;
  return 0;
}

template <class Core>
class PeerLoop {
 public:
  // `trace`: null when not profiling. Lifetime: of all three, longer than this.
  PeerLoop(proto::Transport& transport, Core& core, proto::LoopTrace* trace = nullptr)
      : transport_(transport), core_(core), trace_(trace) {}

  // Sends whatever the core has to say; a peer that cannot be reached is the core's to notice.
  void flush() {
    while (auto out = core_.poll_send()) {
      const proto::SendTrace sending(trace_, out->to, out->message);
      const auto sent = transport_.send(out->to, out->message);
      if (sent) {
        if (!unreached_.empty()) unreached_.erase(out->to);
      } else if (!unreached_.contains(out->to)) {
        limit(unreached_);
        unreached_.insert(out->to);
        log_warning(fmt::format("{}: {}", name_of(out->to), sent.error().message));
      }
    }
  }

  // Handles what arrives within `wait`, then the alarm if it is due.
  Result<void> turn(Duration wait = kLoopWaitMax) {
    flush();
    if (const auto at = core_.poll_wakeup())
      wait = std::clamp(*at - steady_now(), Duration{}, wait);
    RUBATO_ASSIGN(auto received, transport_.receive(wait));
    if (received) {
      handle(*received);
      received.reset();  // its memory is given back before the answer says so
    }
    const Instant now = steady_now();
    if (const auto at = core_.poll_wakeup(); at && *at <= now) core_.on_wakeup(now);
    flush();
    return {};
  }

 private:
  void handle(const proto::Received& received) {
    if (!received.message) {
      log_warning(fmt::format("refused a frame of {}: {}", name_of(received.from),
                              received.message.error().message));
      core_.on_bad_frame(received.from, received.message.error());
      return;
    }
    // Who says Hello has no number yet.
    if (!std::holds_alternative<proto::Hello>(received.message->body)) {
      limit(senders_);
      senders_[received.from] = received.message->sender;
    }
    proto::HandleTrace handling(trace_, received.from, *received.message);
    const std::uint64_t before = chunks_applied(core_);
    core_.on_message(steady_now(), received.from, *received.message);
    handling.applied(chunks_applied(core_) != before);
  }

  // Every connection anew is another peer.
  template <class Known>
  static void limit(Known& known) {
    if (known.size() >= kKnownPeersMax) known.clear();
  }

  // What it says to be.
  std::string name_of(proto::PeerId peer) const {
    const auto sender = senders_.find(peer);
    return sender == senders_.end() ? "an unknown peer" : to_string(sender->second);
  }

  proto::Transport& transport_;
  Core& core_;
  proto::LoopTrace* trace_;
  std::unordered_map<proto::PeerId, proto::NodeId> senders_;  // as of their last messages
  std::unordered_set<proto::PeerId> unreached_;               // the last message was not sent
};

// Runs until core.stopped(), core.failure() or `stop`. Returns: the error of a transport that
// broke; what the core says is for the caller to read.
template <class Core>
Result<void> run_core(proto::Transport& transport, Core& core, std::stop_token stop,
                      proto::LoopTrace* trace = nullptr) {
  PeerLoop loop(transport, core, trace);
  while (!core.stopped() && !core.failure() && !stop.stop_requested()) RUBATO_TRY(loop.turn());
  return {};
}

}  // namespace rubato::server
