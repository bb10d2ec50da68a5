// server/shard_members.hpp - the workers that may commit to a shard, and the state of each: its
// commit under way, the last commit answered, and the form of its replies.
// Pure. Memory: the received frames of commits that a gate holds; copies nothing. Threads: one
// owner. Lifetime: of what find() returns, until members are added or removed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "proto/chunk_set.hpp"
#include "proto/messages.hpp"
#include "server/optimizer.hpp"
#include "server/reply_encoder.hpp"

namespace rubato::server {

// Which chunks of one worker's commit have arrived. If the gate may hold the commit
// (docs/decisions/0004), it also keeps the chunks until they are applied together.
class CommitAssembly {
 public:
  using Added = proto::ChunkSet::Added;

  // Begins commit `sequence` of `total` elements, of which no chunk has arrived.
  void begin(Sequence sequence, std::uint64_t total);
  // The commit was answered: drops its chunks.
  void end() { begin(0, 0); }

  // Notes that this chunk arrived. Requires: commit.sequence == sequence().
  Added note(const proto::Commit& commit);
  // Keeps a chunk for for_each_chunk(). Requires: note() returned Fresh for it.
  void keep(const proto::Commit& chunk, proto::Payload payload);
  // The commit must not be applied. The first reason counts.
  void taint(proto::RefusedFor why) {
    if (!refused_) refused_ = why;
  }

  Sequence sequence() const { return sequence_; }
  // Of a kept chunk, as of all of its commit. 1 if none is kept.
  double weight() const { return kept_.empty() ? 1 : kept_.front().chunk.weight; }
  bool complete() const { return sequence_ != 0 && chunks_.complete(); }
  // Set after taint(), or if the worker says that another shard's part is not finite.
  const std::optional<proto::RefusedFor>& refused() const { return refused_; }
  // At most as many as one ProbeReply may name.
  std::vector<std::uint64_t> missing_offsets() const {
    return chunks_.missing_offsets(proto::kMissingOffsetsMax);
  }

  // Calls f(chunk, payload) for each kept chunk, by ascending offset.
  template <class F>
  void for_each_chunk(F f) {
    std::sort(kept_.begin(), kept_.end(),
              [](const Kept& a, const Kept& b) { return a.chunk.offset < b.chunk.offset; });
    for (const Kept& kept : kept_) f(kept.chunk, kept.payload);
  }

 private:
  struct Kept {
    proto::Commit chunk;
    proto::Payload payload;
  };
  Sequence sequence_ = 0;
  std::optional<proto::RefusedFor> refused_;
  proto::ChunkSet chunks_;
  std::vector<Kept> kept_;
};

struct MemberState {
  // The commit was answered: drops its chunks, and notes what a repeated commit is answered.
  void end_commit() {
    answered = commit.sequence();
    answered_refused = commit.refused().has_value();
    answered_dropped = !used && !answered_refused;
    answered_seeding = false;
    commit.end();
    used = false;
  }
  // Its next commit, where that is known. Every other one is a mistake, or somebody else's.
  std::optional<Sequence> next_commit() const {
    const Sequence last = has_committed() ? answered : std::max(pulled, answered);
    return last > 0 ? std::optional(last + 1) : std::nullopt;
  }

  // An update, not only the initial values.
  bool has_committed() const { return answered > 0 && !answered_seeding; }

  WorkerId worker;
  Incarnation incarnation = 0;
  std::optional<proto::PeerId> peer;      // known once the worker has sent a message
  CommitAssembly commit;                  // the commit under way or held
  std::optional<Optimizer::Scale> scale;  // of `commit`, once its first chunk is applied
  float averaged_part = 0;                // of `commit`: averaged elements move so far towards it
  std::uint32_t seeding = 0;  // of `commit`: the number of the initial values in it; 0: none
  bool used = false;          // the gate had `commit` applied or collected
  ReplyState reply;           // the form of its replies
  Instant complete_at;        // when the last chunk of `commit` arrived
  Sequence answered = 0;      // the last commit that was answered
  bool answered_refused = false;
  bool answered_dropped = false;  // the gate did not use it
  bool answered_seeding = false;  // it was the initial values
  Sequence pulled = 0;            // its pull, before its first update
  // Of `commit`: the largest element that it may have, and has (UpdateNorms).
  double limit = 0;
  double norm = 0;
  Instant since;                    // when it joined, or its last held commit was answered
  Duration usual;                   // from a reply to its next commit; 0: it has made none
  std::uint32_t in_a_row = 0;       // commits refused since the last that was not
  std::uint64_t others_before = 0;  // commits that the shard had applied before these
  proto::RefusedCounts refused = {};
  bool news = false;  // the scheduler has not heard of the last refused one
};

class ShardMembers {
 public:
  std::size_t size() const { return members_.size(); }
  // Returns: null if `worker` is no member.
  MemberState* find(WorkerId worker);

  // Nothing of the commits under way, or held, may be applied.
  void taint_commits() {
    for (MemberState& member : members_)
      if (member.commit.sequence() != 0) member.commit.taint(proto::RefusedFor::OutOfDate);
  }

  // Ascending by worker.
  std::span<MemberState> all() { return members_; }

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
