// sync/ssp.hpp - Stale Synchronous Parallel: the fastest worker is at most s commits ahead.
// Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter
// server", NIPS 2013; commit rule: sync/local_steps.hpp. Letters: c_i commits of worker i that this
// shard has applied, s the staleness bound.
// A commit is applied at once; its reply is released when c_i - min_j c_j <= s, so s = 0 keeps the
// pace of BSP and a large s is ASP. A joiner starts at the current minimum.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "sync/model.hpp"

namespace rubato::sync {

struct SspOptions {
  int staleness = 40;  // s >= 0, in commits
};

class SspGate final : public Gate {
 public:
  // Requires: staleness >= 0.
  explicit SspGate(int staleness);

  void on_join(Instant now, WorkerId worker) override;
  // May release many: the minimum rises when the slowest leaves.
  GateActions on_leave(Instant now, WorkerId worker) override;
  std::uint64_t round() const override { return slowest(); }
  void on_first_commit(WorkerId worker, std::uint64_t round) override;
  GateActions on_commit(Instant now, WorkerId worker) override;

 private:
  std::uint64_t slowest() const { return counts_.empty() ? 0 : counts_.begin()->first; }
  void leave_count(std::uint64_t commits);
  std::vector<WorkerId> release_ready();

  const std::uint64_t staleness_;
  std::map<WorkerId, std::uint64_t> commits_;         // c_i of every member
  std::map<std::uint64_t, std::size_t> counts_;       // how many members have c_i = the key
  std::map<std::uint64_t, std::set<WorkerId>> held_;  // applied, not yet released, by c_i
};

}  // namespace rubato::sync
