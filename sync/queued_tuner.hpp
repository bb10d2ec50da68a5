// sync/queued_tuner.hpp - what tuners have in common: the members' latest reports, and orders and
// decisions that wait to be polled. A tuner overrides the events that concern it.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "sync/model.hpp"

namespace rubato::sync {

class QueuedTuner : public Tuner {
 public:
  void on_start(Instant) override {}
  void on_join(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.emplace(worker, WorkerProgress{}).second, "a worker joins once");
  }
  void on_leave(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
  }
  void on_progress(Instant, WorkerId worker, const WorkerProgress& progress) override {
    const auto member = members_.find(worker);
    RUBATO_CHECK(member != members_.end(), "only members report");
    member->second = progress;
  }
  void on_evaluation(Instant, const EvaluationPoint&) override {}
  void on_wakeup(Instant) override {}
  std::optional<Instant> poll_wakeup() const override { return std::nullopt; }
  std::optional<Order> poll_order() final { return pop(orders_); }
  std::optional<Decision> poll_decision() final { return pop(decisions_); }
  const Phase& phase() const final { return phase_; }

 protected:
  const std::map<WorkerId, WorkerProgress>& members() const { return members_; }
  // Every member has reported the time of a step.
  bool all_timed() const {
    for (const auto& [worker, progress] : members_)
      if (progress.step_time <= Duration{}) return false;
    return !members_.empty();
  }
  void order(WorkerId worker, const Directive& directive) {
    orders_.push_back({worker, directive});
  }
  void order_all(const Directive& directive) {
    for (const auto& [worker, progress] : members_) order(worker, directive);
  }
  void set_phase(Phase phase) { phase_ = std::move(phase); }
  void decide(Decision decision) { decisions_.push_back(std::move(decision)); }

 private:
  template <class T>
  static std::optional<T> pop(std::deque<T>& queue) {
    if (queue.empty()) return std::nullopt;
    std::optional<T> front(std::move(queue.front()));
    queue.pop_front();
    return front;
  }

  std::map<WorkerId, WorkerProgress> members_;
  std::deque<Order> orders_;
  std::deque<Decision> decisions_;
  Phase phase_;
};

}  // namespace rubato::sync
