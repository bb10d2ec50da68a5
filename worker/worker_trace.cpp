#include "worker/worker_trace.hpp"

namespace rubato::worker {

WorkerTrace::WorkerTrace(TraceProcess process)
    : timeline_(process), compute_(process.lane("compute")) {
  if (process) loop_.emplace(process, "io", TraceClock::Scheduler);
}

void WorkerTrace::record_load(Instant began, Instant now, const WorkerCore& core) {
  TraceArgs commit = loop_->last_commit();
  commit.amount = core.parameters().size();
  loop_->lane()->span(Span::Load, began, now, commit);
  if (commit.sequence == 0) return;  // the first parameters, which answer a pull
  for (std::uint32_t shard = 0; shard < core.shards()->shards.size(); ++shard)
    loop_->lane()->flow(FlowPoint::End, began, commit.worker, commit.sequence, shard);
}

}  // namespace rubato::worker
