// sync/barrier.hpp - the gate of rounds: a round applies when every member's commit has arrived.
// Source: Valiant, "A bridging model for parallel computation", CACM 33(8), 1990.
// A round's commits are applied in worker-id order, so that its result does not depend on the order
// of arrival: each as one update, or their mean as one. Then all are released. A round closes over
// the members of the moment: it waits for a joiner, and no longer for a worker that left.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <set>

#include "sync/model.hpp"

namespace rubato::sync {

class BarrierGate : public Gate {
 public:
  enum class Round { Each, Mean };  // what a server optimizer takes as one update
  explicit BarrierGate(Round round = Round::Each) : round_(round) {}
  void on_join(Instant now, WorkerId worker) override;
  // May close the round that waited only for this worker.
  GateActions on_leave(Instant now, WorkerId worker) override;
  GateActions on_commit(Instant now, WorkerId worker) override;

 private:
  GateActions close_round_if_full();

  Round round_;
  std::set<WorkerId> members_;
  std::set<WorkerId> arrived_;  // of this round, a subset of members_
};

}  // namespace rubato::sync
