#include "server/reply_encoder.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace rubato::server {

using proto::PayloadCodec;

void ReplyState::want(const proto::Compression& form, bool as_noted) {
  wanted = form;
  based = as_noted;
  if (is_difference(form.codec)) return;
  any = false;
  held = std::vector<float>();  // its memory too
}

proto::Payload ReplyEncoder::encode(std::span<const float> values, std::uint64_t shard,
                                    ReplyState& state, std::uint64_t seed,
                                    proto::Parameters& reply) {
  reply.codec = state.wanted.codec;
  reply.noted = false;
  if (!is_difference(reply.codec)) {
    if (!blank_ && !all_finite(values)) reply.codec = PayloadCodec::F32;
    return compress({reply.codec, state.wanted.keep}, values, seed);
  }
  reply.noted = true;
  bool based = state.based && state.any;
  state.any = true;
  if (blank_) {
    if (!based) reply.codec = PayloadCodec::F32;
    return compress({reply.codec, state.wanted.keep}, values, seed);
  }
  if (state.held.empty()) state.held.resize(shard);
  const std::span<float> held = std::span(state.held).subspan(reply.offset, reply.count);
  difference_.resize(values.size());
  if (based) {
    for (std::size_t i = 0; i < values.size(); ++i) difference_[i] = values[i] - held[i];
    based = all_finite(difference_);
  }
  if (!based) {
    std::copy(values.begin(), values.end(), held.begin());
    reply.codec = PayloadCodec::F32;
    return compress({PayloadCodec::F32}, values, seed);
  }
  proto::Payload payload = compress(state.wanted, difference_, seed);
  const auto sent = proto::decompress(reply.codec, payload.bytes(), difference_);
  RUBATO_CHECK(sent.has_value(), "what was compressed decompresses");
  for (std::size_t i = 0; i < held.size(); ++i) held[i] += difference_[i];
  return payload;
}

proto::Payload ReplyEncoder::compress(const proto::Compression& compression,
                                      std::span<const float> values, std::uint64_t seed) {
  const std::size_t bytes = proto::compressed_bytes(compression, values.size());
  if (blank_) return proto::Payload::of(blank_).slice(0, bytes);
  const auto buffer = buffers_.take();
  const auto room = std::as_writable_bytes(std::span(*buffer));
  RUBATO_CHECK(bytes <= room.size(), "no codec needs more than f32");
  compressor_.compress(compression, values, seed, room.first(bytes));
  return proto::Payload::of(buffer).slice(0, bytes);
}

}  // namespace rubato::server
