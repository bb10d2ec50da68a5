// scheduler/seeding.hpp - where the initial values of a model of the workers' own come from: one
// member, the seeder, is named in the member lists, and tells them to all shards
// (docs/decisions/0014-initial-values-from-one-worker.md).
// Each naming has a number, from 1. If the seeder is lost before all shards have the values of its
// number, another one is named.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"

namespace rubato::scheduler {

class Seeding {
 public:
  // `wanted`: the shards have no initial values of their own.
  explicit Seeding(bool wanted) : wanted_(wanted) {}

  // One more server, without values.
  void add_server() { has_.push_back(0); }
  void forget_servers() { has_.clear(); }
  // Another process has its place. `snapshot`: it goes on from one, which has the values.
  void on_replaced(std::uint32_t server, bool snapshot) { has_[server] = snapshot ? kNewest : 0; }
  // The shards go on from snapshots, which have values.
  void on_restored() { wanted_ = false; }
  // A server has the values of naming `number`. One that is newer than all that are known here was
  // made before the scheduler's journal lost its end: it holds. Returns: whether that is news.
  bool on_told(std::uint32_t server, std::uint32_t number) {
    if (number <= has_[server]) return false;
    has_[server] = number;
    if (number > number_) {
      number_ = number;
      seeder_.reset();
    }
    return true;
  }
  // All shards have values, or need none from a worker.
  bool done() const {
    return !wanted_ || (number_ > 0 && std::ranges::all_of(has_, [&](std::uint32_t has) {
                          return has == number_ || has == kNewest;
                        }));
  }

  // The one that was named last, while it is a member.
  const std::optional<WorkerId>& seeder() const { return seeder_; }
  std::uint32_t number() const { return number_; }  // of the last naming; 0: none
  // `worker` is the seeder, was told so, and is still waited for.
  bool waits_for(WorkerId worker) const { return seeder_ == worker && told_ && !done(); }

  // Requires: no seeder.
  void name(WorkerId worker) {
    RUBATO_CHECK(!seeder_, "one seeder at a time");
    std::ranges::replace(has_, kNewest, number_);
    seeder_ = worker;
    ++number_;
    told_ = false;
  }
  // List `epoch` is the first that names it.
  void on_listed(std::uint64_t epoch) { epoch_ = epoch; }
  // All shards have list `acked`. Returns: whether the seeder is to be told now, once.
  bool poll_tell(std::uint64_t acked) {
    return seeder_ && acked >= epoch_ && !std::exchange(told_, true);
  }
  // A member has gone, or begins anew.
  void on_gone(WorkerId worker) {
    if (seeder_ == worker) seeder_.reset();
  }

 private:
  // The values of a snapshot: those of the newest naming, whatever its number.
  static constexpr std::uint32_t kNewest = ~std::uint32_t{0};

  bool wanted_;
  std::vector<std::uint32_t> has_;  // by server: the number of its values; 0: none; or kNewest
  std::uint32_t number_ = 0;
  std::optional<WorkerId> seeder_;  // only once number_ > 0
  std::uint64_t epoch_ = 0;         // the first list that names it
  bool told_ = false;
};

}  // namespace rubato::scheduler
