// base/checksum.hpp - XXH3-64, the checksum of frames; and how to have it without a pass of its
// own: a block that fits the first cache is hashed while another pass has it there; and the largest
// of many floats. Pure. Errors:
// none. Threads: any; an object has one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rubato {

// What fits the first cache beside a block or two of something else.
inline constexpr std::size_t kChecksumBlockBytes = 8 * 1024;

// Returns: 0 for no bytes.
std::uint64_t checksum(std::span<const std::byte> bytes);

// The checksum of bytes that are added one block after the other.
class RunningChecksum {
 public:
  RunningChecksum();
  void add(std::span<const std::byte> block);
  // Returns: that of all blocks so far, as checksum() of the whole. Requires: one byte at least.
  std::uint64_t value() const;

 private:
  alignas(64) std::byte state_[576];  // the library's
};

// Of float32 values, which need not be aligned. Returns: the largest |value|; 0 for none, infinity
// or NaN if one of them is. Requires: 4 n bytes.
float largest_magnitude(std::span<const std::byte> floats);

struct FloatsSeen {
  std::uint64_t checksum = 0;
  float largest = 0;  // as largest_magnitude()
};

// One pass over float32 values, which need not be aligned. Requires: 4 n bytes.
FloatsSeen look_through(std::span<const std::byte> floats);

}  // namespace rubato
