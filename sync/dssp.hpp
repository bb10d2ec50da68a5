// sync/dssp.hpp - Dynamic SSP: a fast worker may run ahead of the bound when waiting would not
// help. Source: Zhao et al., "Dynamic stale synchronous parallel distributed training for deep
// learning", ICDCS 2019, arXiv 1908.11848, Alg. 1 and 2. Letters: c_i commits of worker i (their
// t_i), s_L the lower staleness bound, r_i credits of extra commits, r_max their limit, I_i the
// last interval between two commits of i, A_i the instant of the last one.
//
// A commit is applied at once. Its reply is released at once when i has a credit (spent) or
// c_i - min_j c_j <= s_L; else the fastest worker predicts its next r_max commits and those of the
// slowest, takes as many credits as bring one of its commits closest to one of the slowest's, and
// goes if that is any; everyone else waits for the bound. So staleness never exceeds s_L + r_max.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sync/model.hpp"

namespace rubato::sync {

struct DsspOptions {
  int staleness = 3;  // s_L >= 0, in commits
  int credits = 12;   // r_max >= 0, in commits
};

class DsspGate final : public Gate {
 public:
  // Requires: valid options (sync/option_table.hpp).
  explicit DsspGate(const DsspOptions& options);

  void on_join(Instant now, WorkerId worker) override;
  // May release many: the minimum rises when the slowest leaves.
  GateActions on_leave(Instant now, WorkerId worker) override;
  std::uint64_t round() const override { return members_.empty() ? 0 : slowest().commits; }
  void on_first_commit(WorkerId worker, std::uint64_t round) override;
  GateActions on_commit(Instant now, WorkerId worker) override;

 private:
  struct Member {
    std::uint64_t commits = 0;         // c_i
    std::uint32_t credits = 0;         // r_i
    std::optional<Instant> last;       // A_i
    std::optional<Duration> interval;  // I_i, once there were two commits
  };

  void set_commits(WorkerId worker, Member& member, std::uint64_t commits);
  bool may_go(Member& member) const;
  std::uint32_t credits_for(const Member& fast) const;
  // The one with the fewest commits; of several, the lowest id.
  const Member& slowest() const { return members_.at(by_commits_.begin()->second); }
  std::uint64_t fastest_commits() const { return by_commits_.rbegin()->first; }
  std::vector<WorkerId> release_ready();

  const std::uint64_t bound_;         // s_L
  const std::uint32_t credits_most_;  // r_max
  std::map<WorkerId, Member> members_;
  using ByCommits = std::set<std::pair<std::uint64_t, WorkerId>>;
  ByCommits by_commits_;  // all members
  ByCommits held_;        // those that wait
};

}  // namespace rubato::sync
