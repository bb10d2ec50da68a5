// scheduler/roster.hpp - the workers of a run: who is a member, in which life each is, and which
// member list is the first that holds it.
//
//     Joined ──► Training ──► Rejoining          members
//        ▲──────────┴────────────┘ a Hello with `again`
//     Left, Done, Lost, Stalled, Replaced, Aside: no members any more, whatever follows
//
// A number is a worker's for the whole run. Whoever joins anew gets another number, and is another
// worker here even if its name is the same. A process that joins again keeps its number.
// Pure. Threads: one owner. Errors: none; a life that may not follow is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "proto/outbox.hpp"

namespace rubato::scheduler {

// The list of this many members fits into a control frame (proto::kControlBytesMax).
inline constexpr std::uint32_t kWorkersMax = 16'000;
// Names that one run may see. A life costs its scheduler some KiB, to the end of the run.
inline constexpr std::size_t kNamesMax = 4 * kWorkersMax;
// From so many lives on, a name joins once in so long a time.
inline constexpr std::uint32_t kQuickLivesMax = 100;
inline constexpr Duration kLifePace = Duration::from_seconds(10);
// The address of a node that was not heard since on_return().
inline constexpr proto::PeerId kNobody = ~proto::PeerId{0};

enum class Life {
  Joined,     // a member; it may not train yet
  Training,   // a member that was told to start
  Rejoining,  // a member that was told to join again; no shard takes its commits until then
  Left,       // it said so, before the run was stopped
  Done,       // it said so after that: a member to the end
  Lost,       // it was silent for too long
  Stalled,    // others waited for it in vain; it may come back as another worker
  Replaced,   // a later process has its name
  Aside       // its commits were refused again and again
};

constexpr bool is_member(Life life) {
  return life <= Life::Rejoining;
}

// Whether a worker may come from life `before` to `next`.
constexpr bool may_follow(Life before, Life next) {
  if (!is_member(before)) return false;
  // One that joins again before it was started stands in line twice, and is started twice.
  if (next == Life::Training) return before != Life::Rejoining;
  return true;
}

class Roster {
 public:
  struct Worker {
    std::string name;              // of one member at most
    Incarnation incarnation = 0;   // of its process
    proto::PeerId peer = kNobody;  // where it was heard last
    std::uint64_t epoch = 0;       // the first member list that holds this incarnation
    std::uint64_t left_out = 0;    // as its Hello says
    Instant joined_at = {};
    Life life = Life::Joined;
    // When it left or was found lost, before the stop. Never of a member.
    std::optional<Instant> gone_at = {};

    bool member() const { return is_member(life); }
  };

  // `order`: as SchedulerOptions::order.
  explicit Roster(std::vector<std::string> order) : order_(std::move(order)) {}

  // All that ever joined, by number.
  const std::vector<Worker>& all() const { return workers_; }
  const Worker& operator[](WorkerId id) const { return workers_[id.value]; }
  bool knows(WorkerId id) const { return id.value < workers_.size(); }
  const std::map<std::string, WorkerId>& members() const { return members_; }  // by name
  std::string title(WorkerId id) const;                                        // "worker 2 'box-3'"
  // The process was a member, and is none any more.
  bool is_past(Incarnation incarnation) const { return past_.contains(incarnation); }
  // Steps of earlier workers of this name.
  std::uint64_t past_steps(const std::string& name) const;
  std::size_t names() const { return names_.size(); }  // that ever joined
  // Workers of this name, the present one among them.
  std::uint32_t lives(const std::string& name) const;
  // It has joined again and again, and the last time just now.
  bool joins_too_often(Instant now, const std::string& name) const;
  // `workers` in the order of SchedulerOptions::order. Those that it does not name, and later lives
  // of a name, come last, as they are.
  std::vector<WorkerId> ordered(std::vector<WorkerId> workers) const;

  // A worker joins, and stands in line for its start. Requires: no member has its name.
  WorkerId admit(Worker worker);
  // A member goes on as `incarnation`, which list `epoch` is the first to hold: it stands in line
  // for its start anew.
  void admit_again(WorkerId id, Incarnation incarnation, std::uint64_t epoch);
  // Every member is told to join again.
  void rejoin_all();
  // The next one in line whose list all shards have: `acked` is the newest that they have. It
  // trains from now on.
  std::optional<WorkerId> poll_ready(std::uint64_t acked);
  // A member becomes what `life` says. `steps`: its own.
  void remove(WorkerId id, Life life, std::optional<Instant> gone_at, std::uint64_t steps);

  // A member spoke, from there. Returns: whether for the first time since on_return().
  bool spoke(WorkerId id, proto::PeerId from);
  // Another process goes on: no worker's address is known.
  void on_return();

 private:
  void move_to(Worker& worker, Life next);

  std::vector<std::string> order_;
  std::vector<Worker> workers_;
  std::map<std::string, WorkerId> members_;  // exactly those whose life is a member's
  std::deque<WorkerId> line_;                // Joined ones, and some that have gone since
  std::set<Incarnation> past_;               // the last of each that is no member any more
  struct Name {
    std::uint64_t past_steps = 0;  // of workers that are no members any more
    std::uint32_t lives = 0;
    Instant joined_at;  // the last time
  };
  std::map<std::string, Name> names_;
};

}  // namespace rubato::scheduler
