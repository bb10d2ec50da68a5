// What the scheduler heard, as the record of the run.
#include <fmt/format.h>

#include <algorithm>

#include "server/scheduler.hpp"

namespace rubato::server {

void Scheduler::drain_tuner(Instant now) {
  if (!tuner_) return;
  if (!stop_reason_ && !(tuner_->phase() == phase_)) {
    phase_ = tuner_->phase();
    change_members(now);
  }
  while (auto order = tuner_->poll_order()) {
    if (order->worker.value < workers_.size()) {
      const sync::Directive& d = order->directive;
      send(workers_[order->worker.value].peer,
           proto::Directive{d.commit_rate, d.local_steps, d.period, d.weight, d.batch,
                            d.local_rate});
    }
  }
  while (auto decision = tuner_->poll_decision()) {
    log_.push(fmt::format("tuner at {:.3f} s: {} {:g}: {}", seconds(decision->at),
                          decision->quantity, decision->value, decision->reason));
    record_.decisions.push_back({seconds(decision->at), std::move(decision->quantity),
                                 decision->value, std::move(decision->reason)});
  }
}

RunRecord Scheduler::record() const {
  RunRecord record = record_;
  record.sync = options_.sync;
  record.seed = options_.seed;
  record.time_to_target_seconds = criterion_.time_to_target();
  record.stop_reason = stop_reason_.value_or("still running");
  record.seconds = stop_reason_ ? seconds(stopped_at_) : 0;
  record.steps = steps();
  record.commits = commits_;
  double compute = 0, wait = 0, communicate = 0, speed_sum = 0, speed_min = 0;
  std::uint32_t timed = 0;
  for (const auto& worker : workers_) {
    const auto& p = worker.progress;
    record.bytes_up += p.bytes_up;
    record.bytes_down += p.bytes_down;
    compute += p.compute.seconds();
    wait += p.wait.seconds();
    communicate += p.communicate.seconds();
    const double step = p.steps > 0 ? p.compute.seconds() / static_cast<double>(p.steps) : 0;
    if (step > 0) {
      speed_sum += 1 / step;
      speed_min = timed == 0 ? 1 / step : std::min(speed_min, 1 / step);
      ++timed;
    }
    const char* fate = worker.fate == WorkerState::Fate::Lost   ? "lost"
                       : worker.fate == WorkerState::Fate::Left ? "left"
                                                                : "member";
    record.workers.push_back({worker.name, p.steps, p.commits, p.compute.seconds(),
                              p.wait.seconds(), p.communicate.seconds(), step, fate});
  }
  const double total = compute + wait + communicate;
  if (total > 0) {
    record.compute_share = compute / total;
    record.wait_share = wait / total;
    record.communicate_share = communicate / total;
  }
  if (timed > 0) record.heterogeneity = speed_sum / timed / speed_min;
  if (!record_.evaluations.empty()) {
    record.final_loss = record_.evaluations.back().loss;
    record.final_accuracy = record_.evaluations.back().accuracy;
  }
  return record;
}

}  // namespace rubato::server
