#include "worker/parameter_gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "proto/compression.hpp"

namespace rubato::worker {

ParameterGather::ParameterGather(const proto::ShardMap& shards, bool blank,
                                 proto::AveragedElements averaged)
    : blank_(blank), averaged_(std::move(averaged)) {
  for (const auto& entry : shards.shards) shards_.emplace_back().range = entry.range;
  parameters_ = shards.parameters();
}

void ParameterGather::begin(Sequence sequence, const Room& room) {
  sequence_ = sequence;
  if (room || lent_) values_ = room;
  if (!values_) values_ = std::make_shared<Floats>(blank_ ? 0 : parameters_);
  lent_ = was_lent_ = room != nullptr;
  RUBATO_CHECK(blank_ || values_->size() == parameters_, "room for every parameter");
  waiting_ = 0;
  refused_ = false;
  dropped_ = false;
  restores_ = std::numeric_limits<std::uint32_t>::max();
  held_ = {};
  for (auto& shard : shards_) {
    shard.chunks.begin(shard.range.count());
    shard.noted = true;
    if (shard.range.count() > 0) ++waiting_;  // 0 with more servers than parameters
  }
}

void ParameterGather::leave_room() {
  if (lent_) values_ = std::make_shared<Floats>(*values_);
  lent_ = false;
}

ParameterGather::Room ParameterGather::release() {
  lent_ = false;
  return std::exchange(values_, nullptr);
}

bool ParameterGather::waiting_for(std::uint32_t shard) const {
  return active() && !shards_[shard].chunks.complete();
}

std::uint64_t ParameterGather::arrived() const {
  for (const ShardState& shard : shards_)
    if (!shard.chunks.complete()) return shard.range.begin + shard.chunks.prefix();
  return parameters_;
}

Result<bool> ParameterGather::add(std::uint32_t shard, const proto::Parameters& chunk,
                                  const proto::Payload& payload) {
  if (shard >= shards_.size())
    return fail(ErrorCode::Corrupt, fmt::format("parameters from unknown server {}", shard));
  ShardState& state = shards_[shard];
  if (chunk.total != state.range.count())
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
  if (!blank_) RUBATO_TRY(place(chunk, payload, state.range.begin + chunk.offset));
  state.noted = state.noted && chunk.noted;
  refused_ = refused_ || chunk.refused;
  dropped_ = dropped_ || chunk.dropped;
  restores_ = std::min(restores_, chunk.restores);
  if (shard == 0) version_ = chunk.version;
  if (!state.chunks.complete()) return false;
  state.based = state.noted;
  held_ = chunk.held;
  --waiting_;
  return true;
}

// Received payloads become parameters here and nowhere else.
Result<void> ParameterGather::place(const proto::Parameters& chunk, const proto::Payload& payload,
                                    std::uint64_t begin) {
  const std::span<float> values = *values_;
  const bool difference = proto::is_difference(chunk.codec);
  const std::uint64_t averaged = difference ? averaged_.count(begin, chunk.count) : 0;
  if (chunk.averaged != averaged)
    return fail(ErrorCode::Corrupt,
                fmt::format("a reply of {} elements at {} has {} averaged ones; there are {}",
                            chunk.count, begin, chunk.averaged, averaged));
  if (!difference)
    return proto::decompress(chunk.codec, payload.bytes(), values.subspan(begin, chunk.count));
  const std::size_t coded = payload.size() - averaged * sizeof(float);
  difference_.resize(chunk.count - averaged);
  RUBATO_TRY(proto::decompress(chunk.codec, payload.bytes().first(coded), difference_));
  std::size_t next = 0;
  averaged_.for_each_other(begin, chunk.count, [&](std::uint64_t offset, std::uint64_t n) {
    for (std::uint64_t i = offset; i < offset + n; ++i) values[i] += difference_[next++];
  });
  std::size_t at = coded;
  averaged_.for_each(begin, chunk.count, [&](std::uint64_t offset, std::uint64_t n) {
    std::memcpy(values.data() + offset, payload.bytes().data() + at, n * sizeof(float));
    at += n * sizeof(float);
  });
  return {};
}

}  // namespace rubato::worker
