// worker/parameter_gather.hpp - the chunks of every shard's reply until the whole parameter vector
// is here.
// Pure. Memory: one vector of all parameters: lent for one reply, such as the update that it
// answers, or its own; or none. Threads: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/shareable.hpp"
#include "base/time.hpp"
#include "proto/chunk_set.hpp"
#include "proto/messages.hpp"

namespace rubato::worker {

class ParameterGather {
 public:
  using Room = std::shared_ptr<Floats>;

  ParameterGather() = default;
  // `blank`: only what arrived counts; there are no values().
  explicit ParameterGather(const proto::ShardMap& shards, bool blank = false);

  // Expect the replies to `sequence`, from every shard, and put them where `room` is, if lent: each
  // chunk over what is there once it is here. Requires: room of all parameters. Differences are
  // added to what is in our own memory: while they may come, lend none.
  void begin(Sequence sequence, const Room& room = nullptr);
  // Gives back what was lent, if anything, and goes on in memory of our own.
  void leave_room();
  // Returns: the vector that values() was in, lent or not; values() is empty then.
  Room release();
  // Returns: true when this chunk made a shard complete. Corrupt when the chunk does not fit the
  // shard or the chunks before; those of other sequences and repeated ones are ignored.
  [[nodiscard]] Result<bool> add(std::uint32_t shard, const proto::Parameters& chunk,
                                 const proto::Payload& payload);

  bool active() const { return waiting_ > 0; }
  bool waiting_for(std::uint32_t shard) const;
  // First elements, in the shard, of the chunks that have not come, the first `max` of them; none
  // where all may be missing (proto/chunk_set.hpp).
  std::vector<std::uint64_t> missing_offsets(std::uint32_t shard, std::size_t max) const {
    return shards_[shard].chunks.missing_offsets(max);
  }
  // Parameters of this reply that are here without a gap, from the first of the model on.
  std::uint64_t arrived() const;
  // This chunk is here, and perhaps where room was lent: what was there before it is gone.
  bool written_over(std::uint32_t shard, std::uint64_t offset) const {
    return was_lent_ && shards_[shard].chunks.has(offset);
  }
  Sequence sequence() const { return sequence_; }
  // True when a shard refused the commit that this is the reply to.
  bool refused() const { return refused_; }
  // How often the shards had gone back when they sent what has arrived, the least of them.
  std::uint32_t restores() const { return restores_; }
  // True when the shard has noted every chunk that we hold of it, so that it may answer the next
  // commit with differences: known once its reply is complete, and kept until the next one is.
  bool based(std::uint32_t shard) const { return shards_[shard].based; }
  // How long the gate of the shard that completed last held the commit.
  Duration held() const { return held_; }
  // Newest version of shard 0 seen.
  Version version() const { return version_; }
  // The vector that values() is in. What has arrived of it stays as it is until the next begin(),
  // also where leave_room() has gone on in another one.
  std::shared_ptr<const Floats> room() const { return values_; }
  std::span<const float> values() const {
    return values_ ? std::span<const float>(*values_) : std::span<const float>();
  }

 private:
  struct ShardState {
    ElementRange range;
    proto::ChunkSet chunks;
    bool noted = false;  // all chunks of this reply so far
    bool based = false;
  };
  // Takes a chunk over into `values`, or adds it to them.
  Result<void> place(const proto::Parameters& chunk, const proto::Payload& payload,
                     std::span<float> values);

  bool blank_ = false;
  std::vector<ShardState> shards_;
  std::size_t parameters_ = 0;
  Room values_;
  bool lent_ = false;              // values_
  bool was_lent_ = false;          // values_, when this reply began
  std::vector<float> difference_;  // of one chunk
  Sequence sequence_ = 0;
  std::size_t waiting_ = 0;  // shards not complete
  bool refused_ = false;
  std::uint32_t restores_ = 0;
  Duration held_;
  Version version_ = 0;
};

}  // namespace rubato::worker
