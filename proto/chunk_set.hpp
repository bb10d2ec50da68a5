// proto/chunk_set.hpp - which chunks of one slice have arrived, by first element, in any order.
// Pure. Memory: one flat vector, kept from slice to slice. Threads: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rubato::proto {

class ChunkSet {
 public:
  enum class Added { Fresh, Duplicate, Overlap };

  // Forgets everything: a slice of `total` elements, none of them here.
  void begin(std::uint64_t total);
  // Requires: offset + count <= total. An overlapping chunk changes nothing.
  Added add(std::uint64_t offset, std::uint64_t count);

  // The chunk that begins at this element has arrived.
  bool has(std::uint64_t offset) const;
  bool complete() const { return received_ == total_; }
  // Elements that have arrived without a gap from the first one on.
  std::uint64_t prefix() const { return prefix_; }
  std::uint64_t total() const { return total_; }
  // First elements of the chunks that have not arrived, the first `max` of them; none too while
  // only the last chunk is here, which does not tell how long the others are. A sender may cut a
  // huge slice into elements: memory is bounded by `max`.
  std::vector<std::uint64_t> missing_offsets(std::size_t max) const;

 private:
  struct Chunk {
    std::uint64_t offset;
    std::uint64_t count;
  };
  std::vector<Chunk> chunks_;  // ascending
  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t chunk_count_ = 0;  // elements of a full chunk
  std::uint64_t prefix_ = 0;
  std::size_t prefix_chunks_ = 0;
};

}  // namespace rubato::proto
