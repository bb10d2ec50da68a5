#include "proto/shard_map.hpp"

#include "base/check.hpp"

namespace rubato::proto {

ElementRange shard_range(std::uint64_t parameters, std::uint32_t index, std::uint32_t shards) {
  RUBATO_CHECK(index < shards, "shard index below the number of shards");
  const std::uint64_t base = parameters / shards;
  const std::uint64_t extra = parameters % shards;  // the first `extra` shards hold one more
  const std::uint64_t begin = index * base + (index < extra ? index : extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

}  // namespace rubato::proto
