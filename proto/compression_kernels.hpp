// proto/compression_kernels.hpp - the inner loops of compression, once for each instruction set of
// this machine. Every version of a loop gives the same bits as the plain one.
// Pure. Shapes: arrays of n elements; wire bytes are little-endian and need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/packing.hpp"

namespace rubato::proto {

struct CompressionKernels {
  const char* isa;  // "plain", "avx2", "avx512"

  // Round to nearest, ties to even; what is beyond the largest finite value becomes that value.
  void (*to_f16)(const float* in, std::size_t n, std::byte* out);
  void (*to_bf16)(const float* in, std::size_t n, std::byte* out);
  // Return: false when any value is NaN or infinite.
  bool (*from_f16)(const std::byte* in, std::size_t n, float* out);
  bool (*from_bf16)(const std::byte* in, std::size_t n, float* out);

  // A scale (float32) for each block of kInt8Block elements, and a code of one byte an element.
  void (*to_int8)(const float* in, std::size_t n, std::byte* scales, std::byte* codes);
  void (*from_int8)(const std::byte* scales, const std::byte* codes, std::size_t n, float* out);

  // Writes the indices of the elements whose magnitude, as the bits of |x|, is at least `bits`.
  // Returns: their number. Requires: room for n indices.
  std::size_t (*at_least)(const float* in, std::size_t n, std::uint32_t bits, std::uint32_t* out);

  void (*add)(const float* in, std::size_t n, float* into);
  void (*subtract)(const float* in, std::size_t n, float* from);
};

// What this machine can run, the plain version first, the best last.
std::span<const CompressionKernels> compression_kernels();

}  // namespace rubato::proto
