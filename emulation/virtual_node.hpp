// emulation/virtual_node.hpp - a node of the virtual cluster: a core, and what its machine is at.
// The kinds of node offer the same calls, so that the cluster drives all of them alike.
// Deterministic. Units: virtual time. Threads: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "cluster/node_core.hpp"
#include "emulation/critical_path.hpp"
#include "scheduler/durable_scheduler.hpp"
#include "server/server_core.hpp"
#include "worker/evaluator_core.hpp"

namespace rubato::emulation {

// A kind hides what it does otherwise.
template <cluster::NodeCore Core>
struct VirtualNode {
  std::unique_ptr<Core> core;            // null: the run has no such node, or it is dead
  std::optional<Instant> wakeup = {};    // the earliest one scheduled
  CriticalPath::Cause wakeup_cause = 0;  // the activity that asked for it

  // Returns: when a message that arrives now has been read.
  Instant read(Instant now, std::size_t /*payload_bytes*/) { return now; }
  // The core has handled `message`.
  void on_handled(Instant, const proto::Message&) {}
  // A line for the run log, as poll_send().
  std::optional<std::string> poll_line() { return std::nullopt; }
};

struct VirtualScheduler : VirtualNode<scheduler::DurableScheduler> {
  std::unique_ptr<scheduler::DurableScheduler> dead;  // the last process, until the next one
  // What outlives a process. Empty: none is to come.
  std::string journal;

  std::optional<std::string> poll_line() {
    const auto event = core->poll_log();
    return event ? std::optional("scheduler: " + event->text) : std::nullopt;
  }
};

// Reads one message after the other, and a payload takes it time.
struct VirtualServer : VirtualNode<server::ServerCore> {
  double bytes_per_second = 0;  // 0: no time
  Instant busy_until = {};

  Instant read(Instant now, std::size_t payload_bytes) {
    const double seconds =
        bytes_per_second > 0 ? static_cast<double>(payload_bytes) / bytes_per_second : 0;
    busy_until = std::max(busy_until, now) + Duration::from_seconds(seconds);
    return busy_until;
  }
};

struct VirtualEvaluator : VirtualNode<worker::EvaluatorCore> {
  bool evaluating = false;
  CriticalPath::Cause cause = 0;  // the activity that let it begin to evaluate
};

}  // namespace rubato::emulation
