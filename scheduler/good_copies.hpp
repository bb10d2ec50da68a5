// scheduler/good_copies.hpp - the snapshots of a run, as its scheduler knows them: when the next
// one is ordered, which one all servers have on disk, and which are of a time that the shards went
// back from.
// A server keeps two snapshots: its newest, and the one that it is told to keep. The next one is
// ordered when each server that is here has told the end of the last one. So the newest snapshot
// that was on all disks at once stays on all of them, however slow one disk is.
// Pure. Threads: one owner. Errors: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::scheduler {

class GoodCopies {
 public:
  // `every`: 0 for a run that keeps none. `patience`: a server that writes for so long is not
  // waited for any more.
  GoodCopies(Incarnation run, Duration every, Duration patience)
      : run_(run), every_(every), patience_(patience) {}

  // A server joins, with what it has on disk. After a loss of power that may be of this run.
  // `keeps`: it has a directory for snapshots, as its Hello says.
  void add_server(std::span<const proto::SnapshotInfo> found, bool keeps = true);
  // Other servers take over all shards, as snapshot `number` has them. Those of before are void.
  // Servers that join from now on have it. 0: there were no snapshots.
  void on_resharded(Instant now, std::uint64_t number);
  // Training starts: the first one is due.
  void on_start(Instant now);
  // After a return each server is waited for until it is heard, even if it is absent: the journal
  // may have lost what it has on disk, and others would write over what it has in common with them.
  void on_return();
  void on_heard(std::uint32_t server) { servers_[server].state = State::Here; }
  void on_absent(std::uint32_t server);
  // What `server` says in a heartbeat. `commits`: of the run, as workers report them.
  void on_told(Instant now, std::uint32_t server, const proto::Heartbeat& beat,
               std::uint64_t commits);
  // Another process takes the place of `server`. It has found these, and goes on from one of them,
  // or from none. Returns: the commits that are lost with it.
  std::uint64_t on_replaced(std::uint32_t server, std::span<const proto::SnapshotInfo> found,
                            const proto::SnapshotInfo* from, std::uint64_t commits,
                            bool keeps = true);

  // To be called at poll_wakeup(). Returns: an order to all servers that are here, if it is time.
  // `commits`: of the run.
  std::optional<proto::Save> poll_order(Instant now, std::uint64_t commits);
  // The next order has waited for this server for a minute.
  std::optional<std::uint32_t> held_up_by(Instant now) const;
  // The next order is due now, unless a server that still writes is waited for.
  void hurry(Instant now);
  // The order at the end of the run, whether servers still write or not. Nothing: the run keeps no
  // snapshots, or has not begun.
  std::optional<proto::Save> last_order(Instant now, std::uint64_t commits);
  // `server` writes a snapshot, as far as is known; or it has not been heard since a return.
  bool writes(Instant now, std::uint32_t server) const;
  // `server` keeps snapshots: its Hello says so, or it has told of one.
  bool keeps(std::uint32_t server) const {
    return servers_[server].keeps || servers_[server].newest() != 0;
  }
  // The commits that its newest snapshot does not have, of `commits` of the run.
  std::uint64_t unsaved(std::uint32_t server, std::uint64_t commits) const;
  // The next order is left out: what is saved now would take the place of something better.
  void skip(Instant now) { next_ = now + every_; }
  std::optional<Instant> poll_wakeup() const { return next_; }

  // All shards go back to the newest snapshot that all servers have. Returns: its number; 0: there
  // is none. What was ordered since is void.
  std::uint64_t go_back();

  // It is of this run, and not void.
  bool is_good(const proto::SnapshotInfo& snapshot) const {
    return snapshot.run == run_ && !is_void(snapshot.number);
  }
  // The newest good one of `found`. `number`: only this one. Null: none.
  const proto::SnapshotInfo* newest(std::span<const proto::SnapshotInfo> found,
                                    std::optional<std::uint64_t> number = {}) const;
  // The newest good one that each of these servers has found. 0: there is none.
  std::uint64_t common(std::span<const std::vector<proto::SnapshotInfo>> found) const;
  // No snapshot had this number, nor a higher one.
  std::uint64_t next_number() const { return std::max(forgotten_, orders_.size()) + 1; }
  // `server` may begin anew: it never had a snapshot, or (`together`, with all others) never the
  // same as the others.
  bool may_begin_anew(std::uint32_t server, bool together) const;

  // The newest snapshot that `server` has told of; 0: none.
  std::uint64_t saved(std::uint32_t server) const { return servers_[server].newest(); }
  // When a snapshot was ordered. Nothing: the journal has lost it.
  std::optional<Instant> ordered(std::uint64_t number) const;

 private:
  enum class State { Here, Unheard, Absent };
  struct Copy {
    State state = State::Here;
    Instant told = {};                                        // when it was heard last
    std::array<std::uint64_t, proto::kSnapshotsKept> disk{};  // numbers; 0: none
    std::uint64_t saving = 0;                                 // that it writes now; 0: none
    bool keeps = true;                                        // as its Hello says
    std::uint64_t first = 0;    // the first that this process was told to save; 0: none
    std::uint64_t ordered = 0;  // the last of these
    // The commits in its shard, less those that workers had reported when it told of them: the
    // last few times. A server may tell of commits before their workers do, so the least counts.
    std::array<std::int64_t, 4> more{};

    bool has(std::uint64_t number) const { return std::ranges::find(disk, number) != disk.end(); }
    std::uint64_t newest() const { return std::ranges::max(disk); }
    // Over the lower one, but not over `keep`: as Storage::save().
    void put(std::uint64_t number, std::uint64_t keep);
  };
  struct Order {
    Instant at;
    std::uint64_t keep = 0;
    std::uint64_t commits = 0;  // of the run by then
  };
  struct Void {
    std::uint64_t first = 0, last = 0;
  };
  // A server has a snapshot of this number. A loss of power may have taken its order out of the
  // journal, so no later snapshot may get the number.
  void learn(std::uint64_t number);
  // What it was told to save may be on its disk by now, and it has not said so.
  bool unsure(const Copy& copy) const;
  // `copy` has `number`, and keeps it whatever has become of the orders that it has not told of.
  bool keeps(const Copy& copy, std::uint64_t number) const;
  void find_common();
  proto::Save order(Instant now, std::uint64_t commits);
  bool is_void(std::uint64_t number) const;
  bool awaited(Instant now, const Copy& copy) const;
  bool any_awaited(Instant now) const;

  Incarnation run_;
  Duration every_, patience_;
  std::vector<Copy> servers_;
  std::vector<Order> orders_;  // number 1, 2, ...
  std::optional<Instant> next_;
  std::optional<Instant> due_;   // the order that waits for servers
  std::uint64_t forgotten_ = 0;  // the newest that somebody has told of
  std::uint64_t common_ = 0;     // the newest that all servers have
  std::uint64_t resharded_ = 0;  // that on_resharded() told last
  std::vector<Void> voids_;
};

}  // namespace rubato::scheduler
