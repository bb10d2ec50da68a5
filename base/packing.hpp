// base/packing.hpp - float32 in fewer bytes: the arithmetic of one element, and where its bytes
// lie. The host's loops (proto/compression_kernels.cpp, proto/top_k.cpp) and the GPU's kernels
// (train/cuda/pack_kernels.hpp) share it, so they have the same bits. docs/compression.md tells the
// formats. Written without branches and with integer compares, so that GCC vectorises loops of it.
// Pure. C++17, which older nvcc know. A file that uses it is built without fused multiply-add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/kernel.hpp"

namespace rubato {

enum class PayloadCodec : std::uint8_t { F32 = 0, F16 = 1, Int8 = 2, TopK = 3, Bf16 = 4 };

inline constexpr std::size_t kInt8Block = 256;  // elements that share one scale
// Indices of top-k travel as 16 bits within blocks of this many elements.
inline constexpr std::size_t kSparseBlock = std::size_t{1} << 16;
// The scale of the largest finite block: code x scale is finite for every code.
inline constexpr float kInt8ScaleMax = 0x1.fffffep+120F;  // FLT_MAX / 128
// The bits of |x|: as integers they compare like the magnitudes.
inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffffU;

// --- where the bytes of `count` elements lie -----------------------------------------------------

// int8: the scales, then the codes.
RUBATO_KERNEL constexpr std::size_t int8_scale_bytes(std::size_t count) {
  return (count + kInt8Block - 1) / kInt8Block * sizeof(float);
}

// top-k: how many of each block travel (u32 each), then the indices (u16), then the values (u16).
RUBATO_KERNEL constexpr std::size_t sparse_blocks(std::size_t count) {
  return (count + kSparseBlock - 1) / kSparseBlock;
}

// --- one element ---------------------------------------------------------------------------------

template <class To, class From>
[[gnu::always_inline]] RUBATO_KERNEL inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of one size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Signed on purpose: SSE2 compares no unsigned integers, and magnitudes have no sign bit.
[[gnu::always_inline]] RUBATO_KERNEL inline std::int32_t magnitude(float x) {
  return static_cast<std::int32_t>(bits_as<std::uint32_t>(x) & kMagnitudeMask);
}

[[gnu::always_inline]] RUBATO_KERNEL inline std::uint32_t sign_bit(float x) {
  return bits_as<std::uint32_t>(x) & ~kMagnitudeMask;
}

[[gnu::always_inline]] RUBATO_KERNEL inline std::int32_t least_of(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}

// To nearest, ties to even; what is beyond the largest finite value becomes that value.
[[gnu::always_inline]] RUBATO_KERNEL inline std::uint16_t to_f16(float x) {
  const std::int32_t a = least_of(magnitude(x), 0x477fe000);  // 65504
  const std::int32_t normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
  // Below 2^-14 the spacing is that of floats around a half: adding one rounds for us.
  const std::int32_t small = bits_as<std::int32_t>(bits_as<float>(a) + 0.5F) - 0x3f000000;
  return static_cast<std::uint16_t>(sign_bit(x) >> 16 |
                                    static_cast<std::uint32_t>(a < 0x38800000 ? small : normal));
}

[[gnu::always_inline]] RUBATO_KERNEL inline float from_f16(std::uint16_t half) {
  const std::int32_t a = (half & 0x7fff) << 13;
  const std::int32_t normal = a + 0x38000000;
  const std::int32_t small = bits_as<std::int32_t>(bits_as<float>(a + 0x38800000) - 0x1p-14F);
  return bits_as<float>(static_cast<std::uint32_t>(half & 0x8000) << 16 |
                        static_cast<std::uint32_t>(a < 0x00800000 ? small : normal));
}

// As to_f16().
[[gnu::always_inline]] RUBATO_KERNEL inline std::uint16_t to_bf16(float x) {
  const std::int32_t a = least_of(magnitude(x), 0x7f7f0000);
  const auto rounded = static_cast<std::uint32_t>(a + 0x7fff + (a >> 16 & 1));
  return static_cast<std::uint16_t>((sign_bit(x) | rounded) >> 16);
}

[[gnu::always_inline]] RUBATO_KERNEL inline float from_bf16(std::uint16_t half) {
  return bits_as<float>(static_cast<std::uint32_t>(half) << 16);
}

// The scale of a block whose largest magnitude this is.
[[gnu::always_inline]] RUBATO_KERNEL inline float int8_scale(std::int32_t largest) {
  // Below this a block is all zeros: 1 / scale would not be finite.
  constexpr std::int32_t kSmallest = 0x04000000;  // 2^-119
  if (largest < kSmallest) return 0;
  const float scale = bits_as<float>(largest) / 127;
  return kInt8ScaleMax < scale ? kInt8ScaleMax : scale;
}

[[gnu::always_inline]] RUBATO_KERNEL inline float int8_inverse(float scale) {
  return scale > 0 ? 1 / scale : 0;
}

// round(x / scale) in [-127, 127].
[[gnu::always_inline]] RUBATO_KERNEL inline std::uint8_t to_int8(float x, float inverse) {
  // Floats from here to twice as much are whole numbers, in their low bits.
  constexpr float kWhole = 0x1.8p+23F;
  x *= inverse;
  x = x < 127 ? x : 127;
  x = x > -127 ? x : -127;
  return static_cast<std::uint8_t>(bits_as<std::uint32_t>(x + kWhole));
}

[[gnu::always_inline]] RUBATO_KERNEL inline float from_int8(std::uint8_t code, float scale) {
  return scale * static_cast<float>(static_cast<std::int8_t>(code));
}

}  // namespace rubato
