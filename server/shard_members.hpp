// server/shard_members.hpp - who may commit to a shard, and what the shard knows of each.
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
  // Its commit is answered: lets go of the chunks, and notes what a repetition is answered.
  void end_commit() {
    answered = commit.sequence();
    answered_refused = commit.refused();
    commit.end();
    used = false;
  }

  WorkerId worker;
  Incarnation incarnation = 0;
  std::optional<proto::PeerId> peer;      // known once it has spoken
  CommitAssembly commit;                  // the commit under way or held
  std::optional<Optimizer::Scale> scale;  // of it, from its first chunk on
  bool used = false;                      // it was applied, collected or refused
  ReplyState reply;                       // how it wants its replies
  Instant complete_at;                    // when its last chunk arrived
  Sequence answered = 0;                  // the last commit that was released
  bool answered_refused = false;
};

class ShardMembers {
 public:
  std::size_t size() const { return members_.size(); }
  // Null: no member.
  MemberState* find(WorkerId worker);

  // Both in the order of ids; a list costs one pass, and nothing moves where it only grows.
  // Removes who is not in `wanted`, or lives another life there. Requires: ascending ids.
  std::vector<WorkerId> remove_others(const std::vector<proto::Member>& wanted);
  // Adds who is not here yet. Requires: ascending ids.
  std::vector<WorkerId> add_missing(const std::vector<proto::Member>& wanted);

 private:
  std::vector<MemberState> members_;  // ascending by worker
};

}  // namespace rubato::server
