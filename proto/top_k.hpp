// proto/top_k.hpp - the k largest elements of a chunk, and their wire form (docs/compression.md).
// Values travel as bfloat16: the range of float32, so that small updates do not vanish.
// Pure. Shapes: a chunk of n elements, 1 <= k <= n, n at most 2^32 - 1.
// Errors: read_* never trust their input: Corrupt, one line. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"

namespace rubato::proto {

// Chooses indices; strictly ascending. Lifetime: of the result, until the next call.
class TopKSelector {
 public:
  // The k largest magnitudes; of equal ones the first. O(n), and no allocation once it has seen n.
  std::span<const std::uint32_t> largest(std::span<const float> values, std::size_t k);

 private:
  std::vector<std::uint32_t> indices_;
  std::vector<std::uint32_t> magnitudes_;
};

// Payload: how many of each block travel (u32 each), their indices (u16 each), their values.
std::size_t top_k_bytes(std::size_t n, std::size_t k);
void write_top_k(std::span<const float> values, std::span<const std::uint32_t> indices,
                 std::span<std::byte> out);
[[nodiscard]] Result<void> read_top_k(std::span<const std::byte> bytes, std::span<float> values);

// from[i] -= what `sent`, the values at the end of a payload, says of i, for each of `indices`.
void subtract_sent(std::span<const std::uint32_t> indices, std::span<const std::byte> sent,
                   std::span<float> from);

}  // namespace rubato::proto
