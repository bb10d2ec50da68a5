// server/peer_loop.hpp - drives a ServerCore or a Scheduler over a Transport in real time: one
// thread that owns both. Waits are bounded; a bad frame costs its sender one log line.
// Threads: the caller's, until the run is over or `stop` is requested.
#pragma once

#include <algorithm>
#include <stop_token>

#include "base/log.hpp"
#include "base/time.hpp"
#include "proto/loop_trace.hpp"
#include "proto/transport.hpp"

namespace rubato::server {

// How long a loop may be deaf to `stop` and to its own clock.
inline constexpr Duration kLoopWaitMax = Duration::from_ms(200);

// Sends whatever the core has to say; a peer that cannot be reached is the core's to notice.
template <class Core>
void flush(proto::Transport& transport, Core& core, proto::LoopTrace* trace = nullptr) {
  while (auto out = core.poll_send()) {
    const proto::SendTrace sending(trace, out->to, out->message);
    if (const auto sent = transport.send(out->to, out->message); !sent)
      log_warning(sent.error().message);
  }
}

// Chunks that a shard has added to its parameters; the scheduler has none.
template <class Core>
std::uint64_t chunks_applied(const Core& core) {
  if constexpr (requires { core.version(); }) return core.stats().chunks_applied;
  return 0;
}

// Handles what arrives within `wait`, then the alarm if it is due. `trace`: null when not
// profiling.
template <class Core>
Result<void> turn(proto::Transport& transport, Core& core, Duration wait,
                  proto::LoopTrace* trace = nullptr) {
  flush(transport, core, trace);
  if (const auto at = core.poll_wakeup()) wait = std::clamp(*at - steady_now(), Duration{}, wait);
  RUBATO_ASSIGN(auto received, transport.receive(wait));
  if (received) {
    if (received->message) {
      proto::HandleTrace handling(trace, received->from, *received->message);
      const std::uint64_t before = chunks_applied(core);
      core.on_message(steady_now(), received->from, *received->message);
      handling.applied(chunks_applied(core) != before);
    } else {
      log_warning("refused a frame: " + received->message.error().message);
      core.on_bad_frame(received->from, received->message.error());
    }
    received.reset();  // its memory is given back before the answer says so
  }
  const Instant now = steady_now();
  if (const auto at = core.poll_wakeup(); at && *at <= now) core.on_wakeup(now);
  flush(transport, core, trace);
  return {};
}

// Runs until core.stopped(), core.failure() or `stop`. Returns: the error of a transport that
// broke; what the core says is for the caller to read.
template <class Core>
Result<void> run_core(proto::Transport& transport, Core& core, std::stop_token stop,
                      proto::LoopTrace* trace = nullptr) {
  while (!core.stopped() && !core.failure() && !stop.stop_requested())
    RUBATO_TRY(turn(transport, core, kLoopWaitMax, trace));
  return {};
}

}  // namespace rubato::server
