// worker/parameter_gather.hpp - gathers the chunks of every shard's reply into one parameter
// vector. Pure. Memory: at most one vector of all parameters. It is the gather's own, or lent for
// one reply, such as the update that the reply answers. Threads: one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/shareable.hpp"
#include "base/time.hpp"
#include "proto/averaged_elements.hpp"
#include "proto/chunk_set.hpp"
#include "proto/messages.hpp"

namespace rubato::worker {

class ParameterGather {
 public:
  using Room = std::shared_ptr<Floats>;

  ParameterGather() = default;
  // `blank`: chunks are only counted; there are no values().
  explicit ParameterGather(const proto::ShardMap& shards, bool blank = false,
                           proto::AveragedElements averaged = {});

  // Expects the replies to `sequence` from every shard. A lent `room` takes each chunk over its old
  // contents when the chunk comes. Requires: `room` has space for all parameters. Differences are
  // added to the gather's own memory: while they may come, lend none.
  void begin(Sequence sequence, const Room& room = nullptr);
  // Gives the lent room back, if any, and goes on in memory of its own.
  void leave_room();
  // Returns: the vector of values(), lent or not. values() is empty then.
  Room release();
  // Returns: true when this chunk made a shard complete. Chunks of other sequences and repeated
  // ones are ignored. Corrupt when the chunk does not fit the shard or overlaps earlier chunks.
  [[nodiscard]] Result<bool> add(std::uint32_t shard, const proto::Parameters& chunk,
                                 const proto::Payload& payload);

  bool active() const { return waiting_ > 0; }
  bool waiting_for(std::uint32_t shard) const;
  // Where the first `max` missing chunks begin, in the shard. Empty where all may be missing
  // (proto/chunk_set.hpp).
  std::vector<std::uint64_t> missing_offsets(std::uint32_t shard, std::size_t max) const {
    return shards_[shard].chunks.missing_offsets(max);
  }
  // How many parameters of this reply are here without a gap, from the model's first on.
  std::uint64_t arrived() const;
  // True when this chunk is here and may lie in lent room. The room's old contents are then gone.
  bool written_over(std::uint32_t shard, std::uint64_t offset) const {
    return was_lent_ && shards_[shard].chunks.has(offset);
  }
  Sequence sequence() const { return sequence_; }
  // True when a shard refused the commit that this is the reply to.
  bool refused() const { return refused_; }
  // True when a shard dropped it, as its sync model says.
  bool dropped() const { return dropped_; }
  // How often the shards had restored kept parameters when they sent this reply: the least of them.
  std::uint32_t restores() const { return restores_; }
  // True when the shard has noted every chunk that is held here of it. It may then answer the next
  // commit with differences. Known once its reply is complete, and kept until the next one is.
  bool based(std::uint32_t shard) const { return shards_[shard].based; }
  // How long the gate held the commit, at the shard whose reply was complete last.
  Duration held() const { return held_; }
  // Newest version of shard 0 seen.
  Version version() const { return version_; }
  // The vector of values(). Arrived parameters do not change in it until the next begin(), not even
  // when leave_room() goes on in another vector.
  std::shared_ptr<const Floats> room() const { return values_; }
  std::span<const float> values() const {
    return values_ ? std::span<const float>(*values_) : std::span<const float>();
  }

 private:
  struct ShardState {
    ElementRange range;
    proto::ChunkSet chunks;
    bool noted = false;  // by the shard: all chunks of this reply so far
    bool based = false;
  };
  // Copies a chunk into the values from element `begin` on, or adds it to them if it is a
  // difference.
  Result<void> place(const proto::Parameters& chunk, const proto::Payload& payload,
                     std::uint64_t begin);

  bool blank_ = false;
  std::vector<ShardState> shards_;
  std::size_t parameters_ = 0;
  Room values_;
  bool lent_ = false;              // values_ is lent
  bool was_lent_ = false;          // values_ was lent when this reply began
  std::vector<float> difference_;  // of one chunk
  proto::AveragedElements averaged_;
  Sequence sequence_ = 0;
  std::size_t waiting_ = 0;  // shards not complete
  bool refused_ = false;
  bool dropped_ = false;
  std::uint32_t restores_ = 0;
  Duration held_;
  Version version_ = 0;
};

}  // namespace rubato::worker
