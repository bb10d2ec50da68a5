#include "base/checksum.hpp"

#define XXH_STATIC_LINKING_ONLY  // the size of its state
#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>  // XXH3_64bits by CPU: 92 GB/s with AVX-512, 20 without
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "base/multiversion.hpp"

namespace rubato {
namespace {

// Without their signs, floats are in the order of their bits, and NaN is above infinity.
// Returns: the bits of the largest.
RUBATO_MULTIVERSION std::uint32_t largest_of(const std::byte* floats, std::size_t count) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, floats + i * sizeof(bits), sizeof(bits));
    largest = std::max(largest, bits & kMagnitude);
  }
  return largest;
}

XXH3_state_t* state_in(std::byte* bytes) {
  return std::launder(reinterpret_cast<XXH3_state_t*>(bytes));
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return bytes.empty() ? 0 : XXH3_64bits(bytes.data(), bytes.size());
}

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the library does
RunningChecksum::RunningChecksum() {
  static_assert(sizeof(XXH3_state_t) <= sizeof(state_) && alignof(XXH3_state_t) <= 64);
  (void)XXH3_64bits_reset(state_in(state_));
}

void RunningChecksum::add(std::span<const std::byte> block) {
  (void)XXH3_64bits_update(state_in(state_), block.data(), block.size());
}

std::uint64_t RunningChecksum::value() const {
  return XXH3_64bits_digest(state_in(const_cast<std::byte*>(state_)));  // it only reads
}

float largest_magnitude(std::span<const std::byte> floats) {
  return std::bit_cast<float>(largest_of(floats.data(), floats.size() / sizeof(float)));
}

FloatsSeen look_through(std::span<const std::byte> floats) {
  if (floats.size() <= kChecksumBlockBytes) return {checksum(floats), largest_magnitude(floats)};
  std::uint32_t largest = 0;
  RunningChecksum running;
  for (std::size_t at = 0; at < floats.size(); at += kChecksumBlockBytes) {
    const auto block = floats.subspan(at, std::min(kChecksumBlockBytes, floats.size() - at));
    running.add(block);
    largest = std::max(largest, largest_of(block.data(), block.size() / sizeof(float)));
  }
  return {running.value(), std::bit_cast<float>(largest)};
}

}  // namespace rubato
