#include "sync/fedbuff.hpp"

#include <cmath>

#include "base/check.hpp"

namespace rubato::sync {

FedBuffGate::FedBuffGate(const FedBuffOptions& options) : options_(options) {
  RUBATO_CHECK(options.buffer >= 1, "options are validated before");
}

void FedBuffGate::on_join(Instant, WorkerId worker) {
  RUBATO_CHECK(base_.emplace(worker, means_).second, "a worker joins once");
}

GateActions FedBuffGate::on_leave(Instant, WorkerId worker) {
  RUBATO_CHECK(base_.erase(worker) == 1, "only a member leaves");
  return {};
}

GateActions FedBuffGate::on_commit(Instant, WorkerId worker) {
  const auto member = base_.find(worker);
  RUBATO_CHECK(member != base_.end(), "only members commit");
  const auto staleness = static_cast<double>(means_ - member->second);
  GateActions actions{.apply = {}, .release = {worker}};
  actions.collect = {worker, std::pow(1 + staleness, -options_.staleness_exponent)};
  if (++collected_ == options_.buffer) {
    actions.flush = true;
    collected_ = 0;
    ++means_;
  }
  member->second = means_;
  return actions;
}

}  // namespace rubato::sync
