#include "sync/barrier.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace rubato::sync {

void BarrierGate::on_join(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.insert(worker).second, "a worker joins once");
}

GateActions BarrierGate::on_leave(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
  arrived_.erase(worker);
  later_.erase(worker);
  early_.erase(worker);
  return close_round_if_full();
}

void BarrierGate::on_first_commit(WorkerId worker, std::uint64_t round) {
  if (round > number_) later_[worker] = round;
}

GateActions BarrierGate::on_commit(Instant, WorkerId worker) {
  RUBATO_CHECK(members_.contains(worker), "only members commit");
  auto& held = later_.contains(worker) ? early_ : arrived_;
  RUBATO_CHECK(held.insert(worker).second, "a worker commits once a round");
  return close_round_if_full();
}

GateActions BarrierGate::close_round_if_full() {
  if (arrived_.size() + later_.size() < members_.size()) return {};
  if (arrived_.empty() && !later_.empty()) {  // nobody is in this round
    number_ = std::ranges::min_element(later_, {}, [](const auto& l) { return l.second; })->second;
    admit_later();
  }
  if (arrived_.empty()) return {};
  const std::vector<WorkerId> round(arrived_.begin(), arrived_.end());
  arrived_.clear();
  ++number_;
  admit_later();
  if (update_ == Round::Each) return {.apply = round, .release = round};
  GateActions actions{.apply = {}, .release = round};
  actions.flush = update_ == Round::Mean;
  if (update_ == Round::Memory) actions.memory = GateActions::Memory::ApplyAsMean;
  for (const WorkerId worker : round) {
    if (update_ == Round::Mean) actions.collect.push_back({worker, 1});
    if (update_ == Round::Memory) actions.remember.push_back({worker});
  }
  return actions;
}

void BarrierGate::admit_later() {
  std::erase_if(later_, [this](const auto& entry) {
    if (entry.second > number_) return false;
    if (early_.erase(entry.first) == 1) arrived_.insert(entry.first);
    return true;
  });
}

}  // namespace rubato::sync
