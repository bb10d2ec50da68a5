// sync/queued_tuner.hpp - what tuners have in common: the members' latest reports, and orders and
// decisions that wait to be polled. A tuner overrides the events that concern it.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
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
    step_times_.insert(Duration{});
  }
  void on_leave(Instant, WorkerId worker) override {
    const auto member = members_.find(worker);
    RUBATO_CHECK(member != members_.end(), "only a member leaves");
    step_times_.erase(step_times_.find(member->second.step_time));
    members_.erase(member);
  }
  void on_progress(Instant, WorkerId worker, const WorkerProgress& progress) override {
    const auto member = members_.find(worker);
    RUBATO_CHECK(member != members_.end(), "only members report");
    if (progress.step_time != member->second.step_time) {
      auto time = step_times_.extract(step_times_.find(member->second.step_time));
      time.value() = progress.step_time;
      step_times_.insert(std::move(time));
    }
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
  bool all_timed() const { return !members_.empty() && fastest() > Duration{}; }
  // The shortest and the longest step time of all members; 0 of one that has not reported any.
  // Require: a member.
  Duration fastest() const { return *step_times_.begin(); }
  Duration slowest() const { return *step_times_.rbegin(); }
  // The shortest step time that any member has reported; 0: none has.
  Duration fastest_timed() const {
    const auto first = step_times_.upper_bound(Duration{});
    return first == step_times_.end() ? Duration{} : *first;
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
  std::multiset<Duration> step_times_;  // of all members
  std::deque<Order> orders_;
  std::deque<Decision> decisions_;
  Phase phase_;
};

}  // namespace rubato::sync
