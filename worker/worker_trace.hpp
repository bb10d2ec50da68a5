// worker/worker_trace.hpp - what a worker process records while profiling: its timeline, and the
// work of its two threads (lanes "io" and "compute").
// Without a process to record into, every call is one branch. Threads: one owner, the I/O loop.
#pragma once

#include <optional>

#include "base/trace.hpp"
#include "proto/loop_trace.hpp"
#include "worker/worker_timeline.hpp"

namespace rubato::worker {

class WorkerTrace {
 public:
  explicit WorkerTrace(TraceProcess process);

  WorkerTimeline& timeline() { return timeline_; }
  // Null when not profiling.
  proto::LoopTrace* loop() { return loop_ ? &*loop_ : nullptr; }
  TraceLane* io() { return loop_ ? loop_->lane() : nullptr; }
  TraceLane* compute() { return compute_; }

  // Parameters were loaded between these two instants; the core does not know it yet.
  void on_load(Instant began, Instant now, const WorkerCore& core) {
    if (loop_) record_load(began, now, core);
  }

 private:
  void record_load(Instant began, Instant now, const WorkerCore& core);

  WorkerTimeline timeline_;
  TraceLane* compute_;
  std::optional<proto::LoopTrace> loop_;
};

}  // namespace rubato::worker
