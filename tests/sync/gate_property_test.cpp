// Invariants of the gates under any order of joins, departures and commits.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>

#include "sync/barrier.hpp"
#include "sync/dssp.hpp"
#include "sync/ssp.hpp"

namespace rubato::sync {
namespace {

// Plays random events against a gate. Only workers without an outstanding commit commit.
class Players {
 public:
  explicit Players(Gate& gate) : gate_(gate) {}

  // Returns: what the gate answered, checked for what every gate promises.
  GateActions play() {
    const int event = *rc::gen::inRange(0, 10);
    if (event == 0 && members_.size() < 8) return join();
    if (event == 1 && members_.size() > 1) return leave(any(members_));
    if (idle_.empty()) return {};
    return commit(any(idle_));
  }

  GateActions join() {
    const WorkerId worker{next_id_++};
    gate_.on_join(now_, worker);
    members_.insert(worker);
    idle_.insert(worker);
    std::uint64_t least = counts_.empty() ? 0 : slowest();
    counts_[worker] = least;
    return {};
  }

  GateActions leave(WorkerId worker) {
    members_.erase(worker);
    idle_.erase(worker);
    unapplied_.erase(worker);
    counts_.erase(worker);
    return check(gate_.on_leave(now_, worker));
  }

  GateActions commit(WorkerId worker) {
    idle_.erase(worker);
    unapplied_.insert(worker);
    ++counts_[worker];
    now_ = now_ + Duration::from_ms(*rc::gen::inRange(1, 1000));  // DSSP predicts from instants
    return check(gate_.on_commit(now_, worker));
  }

  std::uint64_t slowest() const {
    std::uint64_t least = counts_.begin()->second;
    for (const auto& [worker, count] : counts_) least = std::min(least, count);
    return least;
  }

  const std::set<WorkerId>& members() const { return members_; }
  const std::set<WorkerId>& idle() const { return idle_; }
  // Commits started or finished by each member, counted from the minimum when it joined.
  const std::map<WorkerId, std::uint64_t>& counts() const { return counts_; }

 private:
  static WorkerId any(const std::set<WorkerId>& workers) {
    return *rc::gen::elementOf(std::vector<WorkerId>(workers.begin(), workers.end()));
  }

  // Every commit is applied once and released once, in that order, and only to members.
  GateActions check(GateActions actions) {
    for (const WorkerId worker : actions.apply) RC_ASSERT(unapplied_.erase(worker) == 1u);
    for (const WorkerId worker : actions.release) {
      RC_ASSERT(members_.contains(worker));
      RC_ASSERT(!unapplied_.contains(worker));
      RC_ASSERT(idle_.insert(worker).second);
    }
    return actions;
  }

  Gate& gate_;
  Instant now_;
  std::uint32_t next_id_ = 0;
  std::set<WorkerId> members_;
  std::set<WorkerId> idle_;       // without an outstanding commit
  std::set<WorkerId> unapplied_;  // sent, not yet applied
  std::map<WorkerId, std::uint64_t> counts_;
};

}  // namespace

TEST_CASE("SSP: who trains is at most s + 1 commits ahead, and somebody always trains") {
  CHECK(rc::check([] {
    const int staleness = *rc::gen::inRange(0, 5);
    SspGate gate(staleness);
    Players players(gate);
    players.join();
    for (int i = 0; i < 200; ++i) {
      players.play();
      RC_ASSERT(!players.idle().empty());
      for (const auto& [worker, count] : players.counts()) {
        const std::uint64_t limit = players.slowest() + static_cast<std::uint64_t>(staleness);
        // Free to train means c_i - min c <= s; a held worker is one commit beyond at most.
        RC_ASSERT(count <= limit + (players.idle().contains(worker) ? 0 : 1));
        // And nobody is held without need.
        RC_ASSERT(count > limit || players.idle().contains(worker));
      }
    }
  }));
}

TEST_CASE("DSSP: staleness stays within s_L + r_max, within s_L nobody is held, somebody trains") {
  CHECK(rc::check([] {
    const int staleness = *rc::gen::inRange(0, 4);
    const int credits = *rc::gen::inRange(0, 6);
    DsspGate gate({.staleness = staleness, .credits = credits});
    Players players(gate);
    players.join();
    for (int i = 0; i < 200; ++i) {
      players.play();
      RC_ASSERT(!players.idle().empty());
      for (const auto& [worker, count] : players.counts()) {
        const std::uint64_t ahead = count - players.slowest();
        const bool idle = players.idle().contains(worker);
        RC_ASSERT(ahead <= static_cast<std::uint64_t>(staleness + credits) + (idle ? 0 : 1));
        RC_ASSERT(ahead > static_cast<std::uint64_t>(staleness) || idle);
      }
    }
  }));
}

TEST_CASE("BSP: a round is all members, applied in worker-id order, and nobody is a round ahead") {
  CHECK(rc::check([] {
    BarrierGate gate;
    Players players(gate);
    players.join();
    for (int i = 0; i < 200; ++i) {
      const GateActions actions = players.play();
      RC_ASSERT(!players.idle().empty());
      RC_ASSERT(actions.apply == actions.release);
      if (actions.apply.empty()) continue;
      RC_ASSERT(std::equal(actions.apply.begin(), actions.apply.end(), players.members().begin(),
                           players.members().end()));
      RC_ASSERT(players.idle() == players.members());
    }
  }));
}

}  // namespace rubato::sync
