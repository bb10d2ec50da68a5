#include "sync/batched_adsp.hpp"

namespace rubato::sync {

BatchedAdsp::BatchedAdsp(const AdspOptions& options, std::uint64_t parameter_bytes, int batch)
    : rates_(options, parameter_bytes), batches_({}, batch) {}

void BatchedAdsp::on_start(Instant now) {
  rates_.on_start(now);
  batches_.on_start(now);
}

void BatchedAdsp::on_join(Instant now, WorkerId worker) {
  told_[worker] = {};
  rates_.on_join(now, worker);
  batches_.on_join(now, worker);
}

void BatchedAdsp::on_leave(Instant now, WorkerId worker) {
  told_.erase(worker);
  rates_.on_leave(now, worker);
  batches_.on_leave(now, worker);
}

void BatchedAdsp::on_progress(Instant now, WorkerId worker, const WorkerProgress& progress) {
  rates_.on_progress(now, worker, progress);
  batches_.on_progress(now, worker, progress);
}

void BatchedAdsp::on_evaluation(Instant now, const EvaluationPoint& point) {
  rates_.on_evaluation(now, point);
}

void BatchedAdsp::on_wakeup(Instant now) {
  rates_.on_wakeup(now);
}

std::optional<Tuner::Order> BatchedAdsp::poll_order() {
  if (const auto rate = rates_.poll_order()) {
    const auto told = told_.find(rate->worker);
    if (told == told_.end()) return rate;  // it has left since; nobody is told
    told->second.commit_rate = rate->directive.commit_rate;
    return Order{rate->worker, told->second};
  }
  auto share = batches_.poll_order();
  if (!share) return std::nullopt;
  const auto told = told_.find(share->worker);
  if (told == told_.end()) return share;
  told->second.weight = share->directive.weight;
  told->second.batch = share->directive.batch;
  return Order{share->worker, told->second};
}

std::optional<Decision> BatchedAdsp::poll_decision() {
  if (auto decision = rates_.poll_decision()) return decision;
  return batches_.poll_decision();
}

}  // namespace rubato::sync
