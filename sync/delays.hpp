// sync/delays.hpp - the delay of every member's commit: how many updates a shard has made since it
// last answered that member. A gate counts them, since a commit does not say what it began at.
// A joiner counts from the moment when it joins.
// Pure. Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "sync/model.hpp"

namespace rubato::sync {

class Delays {
 public:
  void join(WorkerId worker) {
    RUBATO_CHECK(base_.emplace(worker, updates_).second, "a worker joins once");
  }
  void leave(WorkerId worker) { RUBATO_CHECK(base_.erase(worker) == 1, "only a member leaves"); }
  // The delay of a commit that `worker` sends now. Requires: a member.
  std::uint64_t of(WorkerId worker) const {
    const auto member = base_.find(worker);
    RUBATO_CHECK(member != base_.end(), "only members commit");
    return updates_ - member->second;
  }
  // The shard makes an update.
  void on_update() { ++updates_; }
  // The shard answers `worker` with the parameters as they are. Requires: a member.
  void on_answer(WorkerId worker) { base_.at(worker) = updates_; }

  std::size_t members() const { return base_.size(); }

 private:
  std::uint64_t updates_ = 0;
  std::map<WorkerId, std::uint64_t> base_;  // updates_ when the member was last answered
};

// The gate of a model that judges commits by their delays.
class DelayGate : public Gate {
 public:
  void on_join(Instant, WorkerId worker) override { delays_.join(worker); }
  GateActions on_leave(Instant, WorkerId worker) override {
    delays_.leave(worker);
    return {};
  }

 protected:
  // Of an option that is one a member unless given.
  std::size_t or_members(const std::optional<int>& given) const {
    return given ? static_cast<std::size_t>(*given) : delays_.members();
  }
  Delays delays_;
};

}  // namespace rubato::sync
