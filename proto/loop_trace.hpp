// proto/loop_trace.hpp - what the loop of a node records while profiling: messages sent and
// handled, the arrows of its commits, and the scheduler's clock.
// A loop that does not profile has a null LoopTrace*: one branch a message.
// Threads: one owner, the loop's.
#pragma once

#include <map>
#include <string>

#include "base/trace.hpp"
#include "proto/clock_sync.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

class LoopTrace {
 public:
  // Requires: `process` records. `clock`: Scheduler for a node that asks for its clock.
  LoopTrace(TraceProcess process, const std::string& lane, TraceClock clock);

  TraceLane* lane() const { return lane_; }
  // The commit sent last; no sequence before the first.
  const TraceArgs& last_commit() const { return last_commit_; }

  void before_send(Instant now, Message& message);
  void on_sent(Instant began, NodeId to, const Message& message);
  void on_sent(Instant began, PeerId to, const Message& message);
  // `applied`: parameters of ours have changed by it.
  void on_handled(Instant began, PeerId from, const Message& message, bool applied);

 private:
  TraceProcess process_;
  TraceLane* lane_;
  TraceClock clock_;
  ClockSync sync_;
  TraceArgs last_commit_;
  std::uint32_t shard_ = 0;                  // a server's own
  std::map<PeerId, std::uint32_t> workers_;  // who has committed, by where it is
};

// Null while nothing is recorded.
inline LoopTrace* recording(LoopTrace* trace) {
  return trace && trace->lane()->records() ? trace : nullptr;
}

// The sending of one message, from construction to end.
template <class To>
class SendTrace {
 public:
  SendTrace(LoopTrace* trace, const To& to, Message& message)
      : trace_(recording(trace)), to_(to), message_(message) {
    if (!trace_) return;
    began_ = steady_now();
    trace_->before_send(began_, message);
  }
  ~SendTrace() {
    if (trace_) trace_->on_sent(began_, to_, message_);
  }
  SendTrace(const SendTrace&) = delete;
  SendTrace& operator=(const SendTrace&) = delete;

 private:
  LoopTrace* trace_;
  const To& to_;
  const Message& message_;
  Instant began_;
};

// The handling of one message, from construction to end.
class HandleTrace {
 public:
  HandleTrace(LoopTrace* trace, PeerId from, const Message& message)
      : trace_(recording(trace)), from_(from), message_(message) {
    if (trace_) began_ = steady_now();
  }
  ~HandleTrace() {
    if (trace_) trace_->on_handled(began_, from_, message_, applied_);
  }
  HandleTrace(const HandleTrace&) = delete;
  HandleTrace& operator=(const HandleTrace&) = delete;
  void applied(bool value) { applied_ = value; }

 private:
  LoopTrace* trace_;
  PeerId from_;
  const Message& message_;
  Instant began_;
  bool applied_ = false;
};

}  // namespace rubato::proto
