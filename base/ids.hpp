// base/ids.hpp - the identifiers of a run as distinct types, so that a worker is never passed for a
// shard, and the range of parameters that a shard holds.
#pragma once

#include <compare>
#include <cstdint>

namespace rubato {

// A member worker, numbered from 0 in the order of joining; never reused within a run.
struct WorkerId {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const WorkerId&) const = default;
};

// One contiguous range of the flat parameter vector, numbered from 0 in parameter order.
struct ShardId {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const ShardId&) const = default;
};

// Elements of the flat parameter vector, from `begin` to before `end`.
struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  constexpr std::uint64_t count() const { return end - begin; }
  constexpr bool operator==(const ElementRange&) const = default;
};

// Number of commits a shard has applied.
using Version = std::uint64_t;

// One life of a process; a restart is a new incarnation. Random, never 0.
using Incarnation = std::uint64_t;

// The n-th commit (or pull) of one incarnation of a worker, from 1.
using Sequence = std::uint64_t;

}  // namespace rubato
