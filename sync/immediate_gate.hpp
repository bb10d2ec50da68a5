// sync/immediate_gate.hpp - the gate that applies a commit and answers it at once: nobody waits.
// Source: Recht, Re, Wright, Niu, "Hogwild!", NIPS 2011; Dean et al., NIPS 2012 (Downpour SGD).
// Pure. Threads: one owner. Errors: none; a commit of a worker that is no member is a bug.
#pragma once

#include <set>

#include "base/check.hpp"
#include "sync/model.hpp"

namespace rubato::sync {

class ImmediateGate : public Gate {
 public:
  void on_join(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.insert(worker).second, "a worker joins once");
  }

  GateActions on_leave(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.erase(worker) == 1, "only a member leaves");
    return {};
  }

  bool streams() const override { return true; }

  GateActions on_commit(Instant, WorkerId worker) override {
    RUBATO_CHECK(members_.contains(worker), "only members commit");
    return {.apply = {worker}, .release = {worker}};
  }

 private:
  std::set<WorkerId> members_;
};

}  // namespace rubato::sync
