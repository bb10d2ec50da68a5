// cluster/node_loop.hpp - drives one core over a Transport in real time: the loop of every node.
// Policies, the same for all nodes:
// - Every wait has an end: the core's wake-up, the host's, or kLoopWaitMax.
// - Bad frames of a peer are one log line a minute, with a count. A node that the core depends on
//   and that speaks another protocol version ends the loop.
// - Messages that a peer does not take are one log line a minute, too. The deadlines of the cores
//   notice what is missing.
// - A scheduler that does not speak is looked for, and a line says why it is not reached.
// - A peer that proved a key speaks for its owner alone, and not at all once the key is revoked.
// - While profiling, each message sent or handled is recorded.
// Threads: the caller's, which owns the transport. Host::hold() guards a core that others use too.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "base/log.hpp"
#include "base/log_limit.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "cluster/lookout.hpp"
#include "cluster/node_core.hpp"
#include "cluster/node_peers.hpp"
#include "proto/loop_trace.hpp"
#include "proto/transport.hpp"

namespace rubato::cluster {

// How long a loop may be deaf to `stop` and to its own clock.
inline constexpr Duration kLoopWaitMax = Duration::from_ms(200);

// The host of a core that computes nothing. Other hosts derive from it and hide what they need.
struct IdleHost {
  struct Unguarded {};
  // Held by the loop while it uses the core.
  Unguarded hold() { return {}; }
  // Does what the core wants computed.
  void drive() {}
  // The core has handled `message`.
  void on_handled(Instant, const proto::Message&) {}
  // All that the core had to say is sent. The core is not held.
  void on_spoken() {}
  // When drive() has something to do at the latest.
  std::optional<Instant> poll_wakeup() const { return std::nullopt; }
};

template <NodeCore Core, class Host = IdleHost>
class NodeLoop {
 public:
  using Address = AddressOf<Core>;
  using Peers = std::conditional_t<kSpeaksToNodes<Core>, NodePeers, AnyPeers>;

  // `trace`: null when not profiling. Lifetime: of all, longer than this.
  NodeLoop(proto::Transport& transport, Core& core, proto::LoopTrace* trace = nullptr)
    requires std::same_as<Host, IdleHost>
      : NodeLoop(transport, core, trace, idle_) {}
  NodeLoop(proto::Transport& transport, Core& core, proto::LoopTrace* trace, Host& host)
      : transport_(transport), core_(core), host_(host), trace_(trace), peers_(transport) {}
  NodeLoop(const NodeLoop&) = delete;
  NodeLoop& operator=(const NodeLoop&) = delete;

  Peers& peers() { return peers_; }
  void look_for_scheduler(const std::string& endpoint) {
    scheduler_.emplace("the scheduler", endpoint);
  }

  // Runs until the run is over, the core fails, or `stop`; a core that takes its leave does so
  // first. Returns: why it ended, or the error of the core or the transport.
  [[nodiscard]] Result<std::string> run(const std::stop_token& stop) {
    while (true) {
      RUBATO_TRY(speak());
      std::optional<Instant> wakeup;
      {
        [[maybe_unused]] const auto held = host_.hold();
        if (core_.failure()) return tl::unexpected<Error>(*core_.failure());
        if (core_.stopped()) return *core_.stopped();
        if (stop.stop_requested()) {
          if constexpr (kTakesLeave<Core>) {
            if (!std::exchange(interrupted_, true)) {
              core_.on_interrupt(steady_now());
              continue;
            }
          } else {
            return std::string("interrupted");
          }
        }
        wakeup = core_.poll_wakeup();
      }
      RUBATO_TRY(listen(wakeup, kLoopWaitMax));
    }
  }

  // One turn of run(), for a caller with an end of its own.
  [[nodiscard]] Result<void> turn(Duration wait = kLoopWaitMax) {
    RUBATO_TRY(speak());
    return listen(core_.poll_wakeup(), wait);
  }

  // Sends and logs whatever the core has to say.
  void flush() {
    log_lines();
    std::size_t bytes = 0;  // of the last message
    const auto next = [&] {
      [[maybe_unused]] const auto held = host_.hold();
      count_bytes(core_, std::exchange(bytes, 0), 0);
      return core_.poll_send();
    };
    while (auto out = next()) {
      const proto::SendTrace sending(trace_, out->to, out->message);
      bytes = send(out->to, out->message);
    }
  }

 private:
  Result<void> speak() {
    {
      [[maybe_unused]] const auto held = host_.hold();
      if constexpr (kSpeaksToNodes<Core>)
        if (core_.shards()) RUBATO_TRY(peers_.connect_servers(*core_.shards()));
      host_.drive();
    }
    flush();
    host_.on_spoken();
    if (scheduler_)
      if (const auto line = scheduler_->poll(steady_now())) log_warning(*line);
    return {};
  }

  // The scheduler's log is no lines but events, which are its host's.
  void log_lines() {
    if constexpr (requires { log_info(*core_.poll_log()); }) {
      const auto next = [this] {
        [[maybe_unused]] const auto held = host_.hold();
        return core_.poll_log();
      };
      while (const auto line = next()) log_info(*line);
    }
    if constexpr (requires { core_.poll_warning(); })
      while (const auto line = core_.poll_warning()) log_warning(*line);
  }

  // Returns: the bytes on the wire; 0 when it was not sent.
  std::size_t send(const Address& to, const proto::Message& message) {
    const proto::PeerId peer = peers_.peer_of(to);
    const auto sent = transport_.send(peer, message);
    if (sent) return *sent;
    warn(unreached_, "cannot reach " + peers_.name(to), sent.error());
    return 0;
  }

  // Handles what arrives until `wakeup`, which is the core's, or within `wait`; then the alarm, if
  // it is due.
  Result<void> listen(std::optional<Instant> wakeup, Duration wait) {
    const Instant began = steady_now();
    Instant until = began + wait;
    if (wakeup) until = std::min(until, *wakeup);
    if (const auto at = host_.poll_wakeup()) until = std::min(until, *at);
    RUBATO_ASSIGN(auto received, transport_.receive(std::max(until - began, Duration{})));
    [[maybe_unused]] const auto held = host_.hold();
    const Instant now = steady_now();
    if (received) {
      RUBATO_TRY(handle(now, *received));
      received.reset();  // its memory is given back before the answer says so
    }
    if (const auto at = core_.poll_wakeup(); at && *at <= now) core_.on_wakeup(now);
    return {};
  }

  Result<void> handle(Instant now, const proto::Received& received) {
    count_bytes(core_, 0, received.wire_bytes);
    if (received.revoked) return on_revoked(now, received);
    if (!received.message) return refuse(received.from, received.message.error());
    const auto& message = *received.message;
    if (received.identity)
      if (auto why = proto::overstep(*received.identity, message))
        return refuse(received.from, {ErrorCode::BadInput, std::move(*why)});
    const auto from = peers_.sender_of(received.from, message);
    if (!from) return {};
    if (scheduler_ && message.sender.role == proto::Role::Scheduler && scheduler_->on_heard(now))
      log_info("the scheduler is heard");
    proto::HandleTrace handling(trace_, received.from, message);
    const std::uint64_t before = chunks_applied(core_);
    core_.on_message(now, *from, message);
    handling.applied(chunks_applied(core_) != before);
    host_.on_handled(now, message);
    return {};
  }

  Result<void> refuse(proto::PeerId peer, const Error& error) {
    const auto from = peers_.address_of(peer);
    if (!from) return {};
    // The codec says Refused for another protocol version only.
    if (kSpeaksToNodes<Core> && error.code == ErrorCode::Refused)
      return fail(error.code, fmt::format("{}: {}", peers_.name(*from), error.message));
    if constexpr (requires { core_.on_bad_frame(*from, error); }) core_.on_bad_frame(*from, error);
    if (!core_.failure()) warn(refused_, "refused a frame of " + peers_.name(*from), error);
    return {};
  }

  // The peer is told, and then nothing any more.
  Result<void> on_revoked(Instant now, const proto::Received& received) {
    const auto from = peers_.address_of(received.from);
    if (!from) return {};
    const std::string text =
        fmt::format("the key of {} was revoked", to_string(*received.identity));
    if constexpr (requires { core_.on_bad_frame(*from, Error{}); })
      core_.on_bad_frame(*from, {ErrorCode::BadInput, text});
    bool said = false;
    if constexpr (requires { core_.on_revoked(now, *from); }) said = core_.on_revoked(now, *from);
    if (!said) log_warning(text);
    return {};
  }

  // `what` names the peer. Peers of no known name share a line.
  static void warn(LogLimit& said, const std::string& what, const Error& error) {
    if (const auto left_out = said.admit(steady_now(), what))
      log_warning(fmt::format("{}: {}{}", what, error.message, more_text(*left_out)));
  }

  proto::Transport& transport_;
  Core& core_;
  inline static IdleHost idle_;  // has no state
  Host& host_;
  proto::LoopTrace* trace_;
  Peers peers_;
  std::optional<Lookout> scheduler_;  // empty: not looked for
  bool interrupted_ = false;          // the core was told
  LogLimit refused_;                  // frames, by sender
  LogLimit unreached_;                // messages, by receiver
};

}  // namespace rubato::cluster
