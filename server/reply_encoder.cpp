#include "server/reply_encoder.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"
#include "base/numbers.hpp"

namespace rubato::server {

using proto::Compression;
using proto::PayloadCodec;

void ReplyState::want(const Compression& form, bool as_noted) {
  if (form.codec != wanted.codec || form.keep != wanted.keep) buffers.reset();
  wanted = form;
  based = as_noted;
  if (proto::is_difference(form.codec)) return;
  any = false;
  held = std::vector<float>();  // its memory too
}

proto::Payload ReplyEncoder::encode(const proto::Payload& parameters, std::uint64_t shard,
                                    ReplyState& state, std::uint64_t seed,
                                    proto::Parameters& reply) {
  const Compression form = proto::worthwhile(state.wanted, reply.count);
  reply.codec = form.codec;
  reply.noted = proto::is_difference(state.wanted.codec);
  const bool based = reply.noted && state.based && state.any;
  if (reply.noted) state.any = true;
  if (reply.noted && !based) reply.codec = PayloadCodec::F32;
  if (blank_)
    return parameters.slice(0, proto::compressed_bytes({reply.codec, form.keep}, reply.count));

  const std::span<const float> values = parameters.floats(scratch_);
  std::optional<proto::Payload> payload;
  if (!reply.noted) {
    if (form.codec != PayloadCodec::F32) payload = halves(form, values, reply.offset);
  } else {
    if (state.held.empty()) state.held.resize(shard);
    const std::span<float> held = std::span(state.held).subspan(reply.offset, reply.count);
    if (reply.codec != PayloadCodec::F32) payload = difference(form, values, held, state, seed);
    if (!payload) std::ranges::copy(values, held.begin());
  }
  if (payload) return *std::move(payload);
  reply.codec = PayloadCodec::F32;
  return parameters;
}

void ReplyEncoder::end_same() {
  same_ = false;
  encoded_.clear();
}

std::optional<proto::Payload> ReplyEncoder::halves(const Compression& form,
                                                   std::span<const float> values,
                                                   std::uint64_t offset) {
  const auto before = [](const Encoded& encoded, const auto& key) {
    return std::tie(encoded.codec, encoded.offset) < key;
  };
  const auto at =
      std::lower_bound(encoded_.begin(), encoded_.end(), std::tie(form.codec, offset), before);
  if (at != encoded_.end() && at->codec == form.codec && at->offset == offset) return at->payload;
  if (!all_finite(values)) return std::nullopt;
  proto::Payload payload = compress(form, values, 0, halves_);
  if (same_) encoded_.insert(at, {form.codec, offset, payload});
  return payload;
}

std::optional<proto::Payload> ReplyEncoder::difference(const Compression& form,
                                                       std::span<const float> values,
                                                       std::span<float> held, ReplyState& state,
                                                       std::uint64_t seed) {
  difference_.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) difference_[i] = values[i] - held[i];
  if (!all_finite(difference_)) return std::nullopt;
  if (!state.buffers) state.buffers.emplace(proto::payload_floats(form, chunk_));
  proto::Payload payload = compress(form, difference_, seed, *state.buffers);
  const auto sent = proto::decompress(form.codec, payload.bytes(), difference_);
  RUBATO_CHECK(sent.has_value(), "what was compressed decompresses");
  for (std::size_t i = 0; i < held.size(); ++i) held[i] += difference_[i];
  return payload;
}

proto::Payload ReplyEncoder::compress(const Compression& form, std::span<const float> values,
                                      std::uint64_t seed, proto::BufferPool& buffers) {
  const std::size_t bytes = proto::compressed_bytes(form, values.size());
  const auto buffer = buffers.take();
  compressor_.compress(form, values, seed, std::as_writable_bytes(std::span(*buffer)).first(bytes));
  return proto::Payload::of(buffer).slice(0, bytes);
}

}  // namespace rubato::server
