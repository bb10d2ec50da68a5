#include "worker/parameter_gather.hpp"

#include <fmt/format.h>

#include <cstring>

namespace rubato::worker {

ParameterGather::ParameterGather(const proto::ShardMap& shards) {
  for (const auto& entry : shards.shards) shards_.push_back({entry.range, {}});
  values_.resize(shards.parameters());
}

void ParameterGather::begin(Sequence sequence) {
  sequence_ = sequence;
  waiting_ = 0;
  refused_ = false;
  held_ = {};
  for (auto& shard : shards_) {
    shard.chunks.begin(shard.range.count());
    if (shard.range.count() > 0) ++waiting_;  // else more servers than parameters
  }
}

bool ParameterGather::waiting_for(std::uint32_t shard) const {
  return active() && !shards_[shard].chunks.complete();
}

Result<bool> ParameterGather::add(std::uint32_t shard, const proto::Parameters& chunk,
                                  const proto::Payload& payload) {
  if (shard >= shards_.size())
    return fail(ErrorCode::Corrupt, fmt::format("parameters from unknown server {}", shard));
  ShardState& state = shards_[shard];
  if (chunk.total != state.range.count() || payload.size() != chunk.count * sizeof(float))
    return fail(ErrorCode::Corrupt,
                fmt::format("server {} sent {} of {} parameters, its shard has {}", shard,
                            chunk.count, chunk.total, state.range.count()));
  if (chunk.sequence != sequence_ || !waiting_for(shard)) return false;
  switch (state.chunks.add(chunk.offset, chunk.count)) {
    case proto::ChunkSet::Added::Duplicate:
      return false;
    case proto::ChunkSet::Added::Overlap:
      return fail(ErrorCode::Corrupt,
                  fmt::format("server {} sent overlapping chunks at element {}: all nodes need the "
                              "same [wire] chunk_kib",
                              shard, chunk.offset));
    case proto::ChunkSet::Added::Fresh:
      break;
  }
  // The one place where a received payload becomes parameters.
  std::memcpy(values_.data() + state.range.begin + chunk.offset, payload.bytes().data(),
              payload.size());
  refused_ = refused_ || chunk.refused;
  if (shard == 0) version_ = chunk.version;
  if (!state.chunks.complete()) return false;
  held_ = chunk.held;
  --waiting_;
  return true;
}

}  // namespace rubato::worker
