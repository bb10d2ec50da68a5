// worker/commit_sender.hpp - which chunk of the update in flight goes next: ascending in every
// shard, the shards in turns, so that all of them start at once and the first layers arrive first.
// Credit: at most kCreditChunks of a shard are under way; each answer lets one more go. What is not
// handed to the transport can still be overtaken, at the border of a chunk, and a server has that
// many replies for one worker in memory at most.
// Source: Peng et al., "A generic communication scheduler for distributed DNN training
// acceleration" (ByteScheduler), SOSP 2019, section 4: priority, partition and credit.
// Pure. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/shard_map.hpp"

namespace rubato::worker {

inline constexpr std::uint32_t kCreditChunks = 4;

class CommitSender {
 public:
  CommitSender() = default;
  // `chunk`: elements of a message.
  CommitSender(const proto::ShardMap& shards, std::uint64_t chunk);

  // A new update: all of it is to be sent.
  void start();
  // Nothing more is to be sent.
  void stop();

  struct Chunk {
    std::uint32_t shard = 0;
    std::uint64_t offset = 0;  // in the shard
    std::uint64_t count = 0;
  };
  // The next chunk that may go now, if any.
  std::optional<Chunk> poll();

  // The shard answered one chunk.
  void on_answer(std::uint32_t shard);
  // The shard lacks these chunks, or all of them, and no other is under way.
  void send_again(std::uint32_t shard, const std::vector<std::uint64_t>& offsets);
  void send_all_again(std::uint32_t shard);

 private:
  struct ShardState {
    std::uint64_t total = 0;
    std::uint64_t next = 0;            // everything from here on is still to be sent
    std::vector<std::uint64_t> again;  // and these, the last one first
    std::uint32_t under_way = 0;       // chunks
  };
  std::uint64_t chunk_ = 0;
  std::vector<ShardState> shards_;
  std::size_t turn_ = 0;
};

}  // namespace rubato::worker
