#include "sync/barrier.hpp"

#include "base/check.hpp"

namespace rubato::sync {

void BarrierGate::on_join(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.insert(worker).second, "a worker joins once");
}

GateActions BarrierGate::on_leave(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
  arrived_.erase(worker);
  return close_round_if_full();
}

GateActions BarrierGate::on_commit(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.contains(worker), "only members commit");
  RUBATO_CHECK(arrived_.insert(worker).second, "a worker commits once a round");
  return close_round_if_full();
}

GateActions BarrierGate::close_round_if_full() {
  if (arrived_.empty() || arrived_.size() < members_.size()) return {};
  const std::vector<WorkerId> round(arrived_.begin(), arrived_.end());
  arrived_.clear();
  if (round_ == Round::Each) return {.apply = round, .release = round};
  GateActions actions{.apply = {}, .release = round, .flush = true};
  for (const WorkerId worker : round) actions.collect.push_back({worker, 1});
  return actions;
}

}  // namespace rubato::sync
