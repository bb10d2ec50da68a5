// proto/compression.hpp - a chunk of float32 to fewer bytes and back, and the error feedback that
// keeps what was not sent. docs/compression.md tells the formats and what each loses.
// Sources: top-k with memory, Stich, Cordonnier, Jaggi, NeurIPS 2018; error feedback, Karimireddy
// et al., ICML 2019. Pure: same values, same bytes, on every CPU. Errors: decompress never
// trusts its input: Corrupt, one line. Values that come out are finite, except of F32; values that
// go in must be, or what comes out is finite and wrong. Threads: a Compressor has one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "proto/messages.hpp"
#include "proto/top_k.hpp"

namespace rubato::proto {

struct Compression {
  PayloadCodec codec = PayloadCodec::F32;
  double keep = 0.01;  // the part of the elements that top-k sends; in (0, 1]
};

const char* codec_name(PayloadCodec codec);  // "f16", "top-k", ...

// Returns: how many of `count` elements top-k sends. Requires: count > 0.
std::size_t kept(const Compression& compression, std::size_t count);

// Returns: the exact size of `count` elements.
std::size_t compressed_bytes(const Compression& compression, std::size_t count);

// Returns: in what `count` elements travel where `wanted` is asked for: f32 where that needs no
// more bytes, so a chunk never needs more than f32 does.
Compression worthwhile(const Compression& wanted, std::size_t count);

// Returns: floats that have room for any `count` elements or fewer, in what is worthwhile.
std::size_t payload_floats(const Compression& wanted, std::size_t count);

// What a receiver asks before it makes room for `count` elements: can `bytes` hold them?
// Returns: Corrupt when not, and when more elements are claimed than a chunk of F32 may hold.
[[nodiscard]] Result<void> check_compressed_bytes(PayloadCodec codec, std::uint64_t count,
                                                  std::size_t bytes);

// Fills `values` from a payload; their number is the chunk's count.
[[nodiscard]] Result<void> decompress(PayloadCodec codec, std::span<const std::byte> bytes,
                                      std::span<float> values);

class Compressor {
 public:
  // Requires: out.size() == compressed_bytes(compression, values.size()).
  void compress(const Compression& compression, std::span<const float> values,
                std::span<std::byte> out);

  // Sends update + residual and leaves in `residual` [same size] what the payload does not say:
  // update + residual - decompress(out).
  void compress(const Compression& compression, std::span<const float> update,
                std::span<float> residual, std::span<std::byte> out);

 private:
  TopKSelector selector_;
};

}  // namespace rubato::proto
