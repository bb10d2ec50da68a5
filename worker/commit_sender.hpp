// worker/commit_sender.hpp - chooses the next chunk of the update in flight. Chunks ascend in every
// shard, because the first layers are needed first.
// Credit: at most kCreditChunks of a shard are under way, and each answer lets one more go. So a
// more urgent message waits for few chunks, and a server holds few replies for one worker.
// After a loss one chunk alone goes, until an answer comes: a link that is too full is not filled.
// Two orders across shards:
// - In turns: all shards start at once.
// - By need: the lowest parameter goes first. All shards together have a second credit, which
//   worker/credit_choice.hpp chooses. Without it they would share the link in turns after all. The
//   last chunk of a shard does not count in it, because its answer may have to wait for others.
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
  // `chunk`: elements in a message.
  CommitSender(const proto::ShardMap& shards, std::uint64_t chunk,
               ShardOrder order = ShardOrder::InTurns);

  // All of a new update is to be sent.
  void start();
  // Nothing more is to be sent of it.
  void stop();

  struct Chunk {
    std::uint32_t shard = 0;
    std::uint64_t offset = 0;  // in the shard
    std::uint64_t count = 0;
  };
  // The update is answered, and blocked the worker for so long. As CreditChoice::on_commit.
  std::optional<std::string> on_commit_over(Duration blocked) { return credit_.on_commit(blocked); }
  // Returns: the next chunk that may go now, if any.
  std::optional<Chunk> poll();

  // The shard answered one chunk.
  void on_answer(std::uint32_t shard);
  // The chunk that poll() gave last is not sent after all.
  void on_dropped(std::uint32_t shard);
  // The shard has all chunks. Their missing answers were lost.
  void on_held(std::uint32_t shard) { shards_[shard].under_way = 0; }
  // The shard is asked which chunks it lacks. Messages keep their order. So a chunk that it lacks
  // when it answers was lost, unless poll() gave it out after the question.
  void on_asked(std::uint32_t shard);
  // The shard lacks these chunks, or all of them. Lost ones go again. Returns: true if any was
  // lost.
  bool on_missing(std::uint32_t shard, const std::vector<std::uint64_t>& offsets);
  bool on_all_missing(std::uint32_t shard);

  // True while no chunk has gone to this shard, because other shards come first.
  bool waits(std::uint32_t shard) const {
    return order_ == ShardOrder::ByNeed && shards_[shard].next == 0;
  }

 private:
  struct ShardState {
    std::uint64_t total = 0;
    std::uint64_t next = 0;            // the chunks from here on are still to be sent
    std::vector<std::uint64_t> again;  // and these once more; the next one is last
    std::uint32_t under_way = 0;       // chunks
    bool asked = false;
    bool narrow = false;               // something was lost, and no answer has come since
    std::vector<std::uint64_t> since;  // chunks that poll() gave out since it was asked
  };
  bool sent(const ShardState& shard) const {
    return shard.again.empty() && shard.next >= shard.total;
  }
  std::uint32_t credit_used() const;

  std::uint64_t chunk_ = 0;
  ShardOrder order_ = ShardOrder::InTurns;
  CreditChoice credit_;  // by need
  std::vector<ShardState> shards_;
  std::size_t turn_ = 0;  // the shard whose turn is next
};

}  // namespace rubato::worker
