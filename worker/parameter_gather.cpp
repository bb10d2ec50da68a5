#include "worker/parameter_gather.hpp"

#include <fmt/format.h>

#include <cstring>

namespace rubato::worker {

ParameterGather::ParameterGather(const proto::ShardMap& shards) {
  for (const auto& entry : shards.shards) shards_.push_back({entry.range, 0, {}});
  values_.resize(shards.parameters());
}

void ParameterGather::begin(Sequence sequence) {
  sequence_ = sequence;
  waiting_ = 0;
  refused_ = false;
  held_ = {};
  for (auto& shard : shards_) {
    shard.received = 0;
    shard.offsets.clear();
    if (shard.range.count() > 0) ++waiting_;  // else more servers than parameters
  }
}

bool ParameterGather::waiting_for(std::uint32_t shard) const {
  return active() && shards_[shard].received < shards_[shard].range.count();
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
  if (!state.offsets.insert(chunk.offset).second) return false;

  std::memcpy(values_.data() + state.range.begin + chunk.offset, payload.bytes().data(),
              payload.size());
  state.received += chunk.count;
  refused_ = refused_ || chunk.refused;
  if (shard == 0) version_ = chunk.version;
  if (state.received < state.range.count()) return false;
  held_ = chunk.held;
  --waiting_;
  return true;
}

}  // namespace rubato::worker
