// proto/shard_map.hpp - which server holds which contiguous range of the flat parameter vector.
// Pure values. Units: offsets and counts are float32 elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.hpp"

namespace rubato::proto {

struct ShardEntry {
  ElementRange range;
  std::string endpoint;  // "tcp://10.0.0.2:5701"; the node name in virtual time
  // Of the server, by which whoever connects knows it (proto/identity.hpp). Empty: not encrypted.
  std::string public_key = {};
  bool operator==(const ShardEntry&) const = default;
};

// Entry i is ShardId{i}; ranges are adjacent and cover [0, parameters).
struct ShardMap {
  std::vector<ShardEntry> shards;
  std::uint64_t parameters() const { return shards.empty() ? 0 : shards.back().range.end; }
  bool operator==(const ShardMap&) const = default;
};

// Range of shard `index` of `shards` over `parameters` elements: sizes differ by at most one.
// Requires: index < shards.
ElementRange shard_range(std::uint64_t parameters, std::uint32_t index, std::uint32_t shards);

}  // namespace rubato::proto
