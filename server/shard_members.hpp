// server/shard_members.hpp - the workers that may commit to a shard, and the state of each: its
// commit under way, the last commit answered, and the form of its replies.
// Pure. Threads: one owner. Lifetime: of what find() returns, until members are added or removed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "proto/messages.hpp"
#include "server/commit_assembly.hpp"
#include "server/optimizer.hpp"
#include "server/reply_encoder.hpp"

namespace rubato::server {

struct MemberState {
  // The commit was answered: drops its chunks, and notes what a repeated commit is answered.
  void end_commit() {
    answered = commit.sequence();
    answered_refused = commit.refused();
    commit.end();
    used = false;
  }

  WorkerId worker;
  Incarnation incarnation = 0;
  std::optional<proto::PeerId> peer;      // known once the worker has sent a message
  CommitAssembly commit;                  // the commit under way or held
  std::optional<Optimizer::Scale> scale;  // of `commit`, once its first chunk is applied
  bool used = false;                      // the gate had `commit` applied, collected or dropped
  ReplyState reply;                       // the form of its replies
  Instant complete_at;                    // when the last chunk of `commit` arrived
  Sequence answered = 0;                  // the last commit that was answered
  bool answered_refused = false;
};

class ShardMembers {
 public:
  std::size_t size() const { return members_.size(); }
  // Returns: null if `worker` is no member.
  MemberState* find(WorkerId worker);

  // Nothing of the commits under way, or held, may be applied.
  void taint_commits() {
    for (MemberState& member : members_)
      if (member.commit.sequence() != 0) member.commit.taint();
  }

  // Both take ids in ascending order and return them so. Each costs one pass over the list.
  // Removes members that are not in `wanted`, or are there with another incarnation.
  // Returns: the removed members.
  std::vector<WorkerId> remove_others(const std::vector<proto::Member>& wanted);
  // Adds the workers of `wanted` that are no members yet. Returns: the added members.
  std::vector<WorkerId> add_missing(const std::vector<proto::Member>& wanted);

 private:
  std::vector<MemberState> members_;  // ascending by worker
};

}  // namespace rubato::server
