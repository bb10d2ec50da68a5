// worker/commit_sender.hpp - which chunk of the update in flight goes next. Ascending in every
// shard, for the first layers are needed first.
// Credit: at most kCreditChunks of a shard are under way; each answer lets one more go. What is not
// handed to the transport can still be overtaken, at the border of a chunk, and a server has that
// many replies for one worker in memory at most.
// Across shards either in turns, so that all of them start at once, or by need: the lowest
// parameter that may go goes first, and all shards together have one credit more, which
// worker/credit_choice.hpp chooses: without one they would share the link in turns, whatever the
// order. The last chunk of a shard takes none of it, for its answer may have to wait for others.
// Source: Peng et al., "A generic communication scheduler for distributed DNN training
// acceleration" (ByteScheduler), SOSP 2019, section 4: priority, partition and credit.
// Pure. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/shard_map.hpp"
#include "worker/credit_choice.hpp"

namespace rubato::worker {

inline constexpr std::uint32_t kCreditChunks = 4;

enum class ShardOrder { InTurns, ByNeed };

class CommitSender {
 public:
  CommitSender() = default;
  // `chunk`: elements of a message.
  CommitSender(const proto::ShardMap& shards, std::uint64_t chunk,
               ShardOrder order = ShardOrder::InTurns);

  // A new update: all of it is to be sent.
  void start();
  // Nothing more is to be sent.
  void stop();

  struct Chunk {
    std::uint32_t shard = 0;
    std::uint64_t offset = 0;  // in the shard
    std::uint64_t count = 0;
  };
  // The update is answered, and this is what it blocked the worker for. As CreditChoice::on_commit.
  std::optional<std::string> on_commit_over(Duration blocked) { return credit_.on_commit(blocked); }
  // The next chunk that may go now, if any.
  std::optional<Chunk> poll();

  // The shard answered one chunk.
  void on_answer(std::uint32_t shard);
  // The chunk that poll() gave last is not sent after all.
  void on_dropped(std::uint32_t shard);
  // The shard has all of it: answers to chunks that have not come never will.
  void on_held(std::uint32_t shard) { shards_[shard].under_way = 0; }
  // The shard is asked what it lacks. Everything is in order between the two: of what it lacks when
  // it answers, what was given out before was lost, and only what was given out since may come.
  void on_asked(std::uint32_t shard);
  // It lacks these chunks, or all of them. Returns: whether any of them are lost, to go again.
  bool on_missing(std::uint32_t shard, const std::vector<std::uint64_t>& offsets);
  bool on_all_missing(std::uint32_t shard);

  // All of this shard's update waits for that of others.
  bool waits(std::uint32_t shard) const {
    return order_ == ShardOrder::ByNeed && shards_[shard].next == 0;
  }

 private:
  struct ShardState {
    std::uint64_t total = 0;
    std::uint64_t next = 0;            // everything from here on is still to be sent
    std::vector<std::uint64_t> again;  // and these, the last one first
    std::uint32_t under_way = 0;       // chunks
    bool asked = false;
    std::vector<std::uint64_t> since;  // given out since it was asked
  };
  bool sent(const ShardState& shard) const {
    return shard.again.empty() && shard.next >= shard.total;
  }
  std::uint32_t credit_used() const;

  std::uint64_t chunk_ = 0;
  ShardOrder order_ = ShardOrder::InTurns;
  CreditChoice credit_;  // by need
  std::vector<ShardState> shards_;
  std::size_t turn_ = 0;  // where to look first
};

}  // namespace rubato::worker
