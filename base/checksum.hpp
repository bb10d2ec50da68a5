// base/checksum.hpp - XXH3-64, the checksum of frames; and how to have it without a pass of its
// own: a block that fits the first cache is hashed while another pass has it there. Pure. Errors:
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

struct FloatsSeen {
  std::uint64_t checksum = 0;
  bool finite = true;  // no NaN or infinity among them
};

// One pass over float32 values, which need not be aligned. Requires: 4 n bytes.
FloatsSeen look_through(std::span<const std::byte> floats);

}  // namespace rubato
