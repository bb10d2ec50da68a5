// sync/barrier.hpp - the gate of rounds: a round applies when every member's commit has arrived.
// Source: Valiant, "A bridging model for parallel computation", CACM 33(8), 1990.
// A round's commits are applied in worker-id order, so that its result does not depend on the order
// of arrival: each as one update, or their mean as one, or the mean of all that is remembered. Then
// all are released. A round closes over the members of the moment: it waits for a joiner, and no
// longer for a worker that left.
// Rounds have numbers, so that all shards have a joiner's first commit in the same one. If another
// shard was a round ahead when it joined, this one closes rounds without it until then.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "sync/model.hpp"

namespace rubato::sync {

class BarrierGate : public Gate {
 public:
  enum class Round { Each, Mean, Memory };  // what a server optimizer takes as one update
  explicit BarrierGate(Round round = Round::Each) : update_(round) {}
  void on_join(Instant now, WorkerId worker) override;
  // May close the round that waited only for this worker.
  GateActions on_leave(Instant now, WorkerId worker) override;
  std::uint64_t round() const override { return number_; }
  void on_first_commit(WorkerId worker, std::uint64_t round) override;
  GateActions on_commit(Instant now, WorkerId worker) override;

 private:
  GateActions close_round_if_full();
  // Those that begin in the open round.
  void admit_later();

  const Round update_;
  std::uint64_t number_ = 0;  // of the open round
  std::set<WorkerId> members_;
  std::set<WorkerId> arrived_;               // of this round, a subset of members_
  std::map<WorkerId, std::uint64_t> later_;  // members that begin in a later round, and in which
  std::set<WorkerId> early_;                 // those of them whose commit is here
};

}  // namespace rubato::sync
