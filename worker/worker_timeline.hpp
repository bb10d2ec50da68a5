// worker/worker_timeline.hpp - a worker's steps and commits, recorded as two lanes of a trace:
// "steps", and "commits" with a commit's way there and back and the wait inside.
// It sees what the core sees. In real time it is a part of worker/worker_trace.hpp; in virtual time
// it is the whole trace. Without a process to record into, every call is one branch.
// Threads: one owner.
#pragma once

#include <optional>

#include "base/trace.hpp"
#include "worker/worker_core.hpp"

namespace rubato::worker {

class WorkerTimeline {
 public:
  explicit WorkerTimeline(TraceProcess process = {})
      : steps_(process.lane("steps")), commits_(process.lane("commits")) {}

  void on_step(Instant began, Instant now) {
    if (steps_) steps_->span(Span::Step, began, now);
  }
  // The update is about to be handed to the core.
  void on_commit(Instant now) {
    commit_began_ = now;
    first_reply_.reset();
  }
  // The core has handled `message`.
  void on_message(Instant now, const proto::Message& message, const WorkerCore& core) {
    if (commits_) look_for_reply(now, message, core);
  }

 private:
  void look_for_reply(Instant now, const proto::Message& message, const WorkerCore& core);

  TraceLane* steps_;
  TraceLane* commits_;
  Instant commit_began_;
  std::optional<Instant> first_reply_;  // to the commit under way
  std::uint64_t replied_ = 0;           // the core's commits and
  Duration waited_;                     // its wait, at the last reply
};

}  // namespace rubato::worker
