// worker/parameter_gather.hpp - the chunks of every shard's reply until the whole parameter vector
// is here.
// Pure. Memory: one vector of all parameters, reused, or none. Threads: one owner.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/chunk_set.hpp"
#include "proto/messages.hpp"

namespace rubato::worker {

class ParameterGather {
 public:
  ParameterGather() = default;
  // `blank`: only what arrived counts; there are no values().
  explicit ParameterGather(const proto::ShardMap& shards, bool blank = false);

  // Expect the replies to `sequence`, from every shard.
  void begin(Sequence sequence);
  // Returns: true when this chunk made a shard complete. Corrupt when the chunk does not fit the
  // shard or the chunks before; those of other sequences and repeated ones are ignored.
  [[nodiscard]] Result<bool> add(std::uint32_t shard, const proto::Parameters& chunk,
                                 const proto::Payload& payload);

  bool active() const { return waiting_ > 0; }
  bool waiting_for(std::uint32_t shard) const;
  Sequence sequence() const { return sequence_; }
  // True when a shard refused the commit that this is the reply to.
  bool refused() const { return refused_; }
  // True when the shard has noted every chunk that we hold of it, so that it may answer the next
  // commit with differences: known once its reply is complete, and kept until the next one is.
  bool based(std::uint32_t shard) const { return shards_[shard].based; }
  // How long the gate of the shard that completed last held the commit.
  Duration held() const { return held_; }
  // Newest version of shard 0 seen.
  Version version() const { return version_; }
  std::span<const float> values() const { return values_; }

 private:
  struct ShardState {
    proto::ShardRange range;
    proto::ChunkSet chunks;
    bool noted = false;  // all chunks of this reply so far
    bool based = false;
  };
  // Takes a chunk over into `values`, or adds it to them.
  Result<void> place(const proto::Parameters& chunk, const proto::Payload& payload,
                     std::span<float> values);

  bool blank_ = false;
  std::vector<ShardState> shards_;
  std::vector<float> values_;
  std::vector<float> difference_;  // of one chunk
  Sequence sequence_ = 0;
  std::size_t waiting_ = 0;  // shards not complete
  bool refused_ = false;
  Duration held_;
  Version version_ = 0;
};

}  // namespace rubato::worker
