#include "proto/compression.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.hpp"
#include "proto/codec.hpp"
#include "proto/compression_kernels.hpp"

namespace rubato::proto {
namespace {

constexpr std::uint64_t kCountMax = kPayloadBytesMax / sizeof(float);
// Error feedback goes through a chunk in pieces that stay in the first-level cache.
constexpr std::size_t kPiece = 1024;
static_assert(kPiece % kInt8Block == 0, "pieces are whole blocks");

// The size of a codec whose size does not depend on the values.
std::size_t dense_bytes(PayloadCodec codec, std::size_t count) {
  if (codec == PayloadCodec::F32) return count * sizeof(float);
  if (codec == PayloadCodec::Int8) return int8_scale_bytes(count) + count;
  return count * 2;
}

// Elements [begin, begin + n) of a chunk of `count`, to or from their place in its payload.
// Requires: begin is a multiple of kInt8Block.
struct Place {
  std::size_t begin;
  std::size_t count;
};

void write_dense(PayloadCodec codec, std::span<const float> values, Place place, std::byte* out) {
  const CompressionKernels& kernels = compression_kernels().back();
  const std::size_t n = values.size();
  if (codec == PayloadCodec::F16) return kernels.to_f16(values.data(), n, out + 2 * place.begin);
  if (codec == PayloadCodec::Bf16) return kernels.to_bf16(values.data(), n, out + 2 * place.begin);
  if (codec == PayloadCodec::Int8)
    return kernels.to_int8(values.data(), n, out + int8_scale_bytes(place.begin),
                           out + int8_scale_bytes(place.count) + place.begin);
  std::memcpy(out + sizeof(float) * place.begin, values.data(), values.size_bytes());
}

// Returns: false when a half is NaN or infinite.
bool read_dense(PayloadCodec codec, const std::byte* in, Place place, std::span<float> values) {
  const CompressionKernels& kernels = compression_kernels().back();
  const std::size_t n = values.size();
  if (codec == PayloadCodec::F16) return kernels.from_f16(in + 2 * place.begin, n, values.data());
  if (codec == PayloadCodec::Bf16) return kernels.from_bf16(in + 2 * place.begin, n, values.data());
  if (codec == PayloadCodec::Int8) {
    kernels.from_int8(in + int8_scale_bytes(place.begin),
                      in + int8_scale_bytes(place.count) + place.begin, n, values.data());
  } else {
    std::memcpy(values.data(), in + sizeof(float) * place.begin, values.size_bytes());
  }
  return true;
}

Result<void> check_scales(std::span<const std::byte> bytes, std::size_t count) {
  for (std::size_t at = 0; at < int8_scale_bytes(count); at += sizeof(float)) {
    float scale = 0;
    std::memcpy(&scale, bytes.data() + at, sizeof scale);
    if (!(scale >= 0 && scale <= kInt8ScaleMax))
      return fail(ErrorCode::Corrupt,
                  fmt::format("int8 payload with scale {} in block {}", scale, at / sizeof(float)));
  }
  return {};
}

}  // namespace

const char* codec_name(PayloadCodec codec) {
  switch (codec) {
    case PayloadCodec::F32:
      return "f32";
    case PayloadCodec::F16:
      return "f16";
    case PayloadCodec::Int8:
      return "int8";
    case PayloadCodec::TopK:
      return "top-k";
    case PayloadCodec::Bf16:
      return "bf16";
  }
  return "unknown";
}

std::size_t kept(const Compression& compression, std::size_t count) {
  const double k = std::round(compression.keep * static_cast<double>(count));
  return std::clamp<std::size_t>(static_cast<std::size_t>(k), 1, count);
}

std::size_t compressed_bytes(const Compression& compression, std::size_t count) {
  if (count == 0) return 0;
  if (compression.codec == PayloadCodec::TopK) return top_k_bytes(count, kept(compression, count));
  return dense_bytes(compression.codec, count);
}

Compression worthwhile(const Compression& wanted, std::size_t count) {
  const Compression f32{};
  return compressed_bytes(wanted, count) < compressed_bytes(f32, count) ? wanted : f32;
}

// No more than that many elements need: sizes in a codec and in f32 both grow with the count.
std::size_t payload_floats(const Compression& wanted, std::size_t count) {
  const std::size_t bytes = compressed_bytes(worthwhile(wanted, count), count);
  return (bytes + sizeof(float) - 1) / sizeof(float);
}

Result<void> check_compressed_bytes(PayloadCodec codec, std::uint64_t count, std::size_t bytes) {
  if (codec > PayloadCodec::Bf16)
    return fail(ErrorCode::Corrupt,
                fmt::format("payload codec {} is unknown", static_cast<int>(codec)));
  const auto wrong = [&] {
    return fail(ErrorCode::Corrupt, fmt::format("{} elements in {} with a payload of {} bytes",
                                                count, codec_name(codec), bytes));
  };
  if (count > kCountMax) return wrong();
  if (count == 0 || codec != PayloadCodec::TopK) {
    if (bytes != (count == 0 ? 0 : dense_bytes(codec, count))) return wrong();
    return {};
  }
  const std::size_t least = top_k_bytes(count, 1);
  if (bytes < least || bytes > top_k_bytes(count, count) || (bytes - least) % 4 != 0)
    return wrong();
  return {};
}

Result<void> decompress(PayloadCodec codec, std::span<const std::byte> bytes,
                        std::span<float> values) {
  RUBATO_TRY(check_compressed_bytes(codec, values.size(), bytes.size()));
  if (values.empty()) return {};
  if (codec == PayloadCodec::TopK) return read_top_k(bytes, values);
  if (codec == PayloadCodec::Int8) RUBATO_TRY(check_scales(bytes, values.size()));
  if (!read_dense(codec, bytes.data(), {0, values.size()}, values))
    return fail(ErrorCode::Corrupt,
                fmt::format("{} payload holds NaN or infinity", codec_name(codec)));
  return {};
}

void Compressor::compress(const Compression& compression, std::span<const float> values,
                          std::span<std::byte> out) {
  RUBATO_CHECK(out.size() == compressed_bytes(compression, values.size()), "room for the payload");
  if (values.empty()) return;
  if (compression.codec == PayloadCodec::TopK) {
    write_top_k(values, selector_.largest(values, kept(compression, values.size())), out);
  } else {
    write_dense(compression.codec, values, {0, values.size()}, out.data());
  }
}

void Compressor::compress(const Compression& compression, std::span<const float> update,
                          std::span<float> residual, std::span<std::byte> out) {
  RUBATO_CHECK(out.size() == compressed_bytes(compression, update.size()), "room for the payload");
  RUBATO_CHECK(residual.size() == update.size(), "a residual for each element");
  if (update.empty()) return;
  const CompressionKernels& kernels = compression_kernels().back();
  if (compression.codec == PayloadCodec::TopK) {
    kernels.add(update.data(), update.size(), residual.data());
    const auto indices = selector_.largest(residual, kept(compression, residual.size()));
    write_top_k(residual, indices, out);
    subtract_sent(indices, out.last(2 * indices.size()), residual);
    return;
  }
  std::array<float, kPiece> sent{};
  for (std::size_t begin = 0; begin < update.size(); begin += kPiece) {
    const std::size_t n = std::min(kPiece, update.size() - begin);
    const std::span<float> rest = residual.subspan(begin, n);
    kernels.add(update.data() + begin, n, rest.data());
    write_dense(compression.codec, rest, {begin, update.size()}, out.data());
    read_dense(compression.codec, out.data(), {begin, update.size()}, std::span(sent).first(n));
    kernels.subtract(sent.data(), n, rest.data());
  }
}

}  // namespace rubato::proto
