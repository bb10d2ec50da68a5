#include "server/reply_encoder.hpp"

#include <algorithm>
#include <cstring>
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
                                    ReplyState& state, proto::Parameters& reply) {
  reply.noted = proto::is_difference(state.wanted.codec);
  const std::uint64_t averaged = reply.noted ? averaged_.count(reply.offset, reply.count) : 0;
  const Compression form = proto::worthwhile(state.wanted, reply.count - averaged);
  reply.codec = form.codec;
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
    if (reply.codec != PayloadCodec::F32) payload = difference(form, values, held, state, reply);
    if (!payload) std::ranges::copy(values, held.begin());
  }
  if (payload) return *std::move(payload);
  reply.codec = PayloadCodec::F32;
  reply.averaged = 0;
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
  proto::Payload payload = compress(form, values, halves_);
  if (same_) encoded_.insert(at, {form.codec, offset, payload});
  return payload;
}

std::optional<proto::Payload> ReplyEncoder::difference(const Compression& form,
                                                       std::span<const float> values,
                                                       std::span<float> held, ReplyState& state,
                                                       proto::Parameters& reply) {
  if (!all_finite(values)) return std::nullopt;
  difference_.clear();
  averaged_.for_each_other(reply.offset, reply.count, [&](std::uint64_t offset, std::uint64_t n) {
    const std::size_t first = offset - reply.offset;
    for (std::size_t i = first; i < first + n; ++i) difference_.push_back(values[i] - held[i]);
  });
  if (!all_finite(difference_)) return std::nullopt;
  reply.averaged = reply.count - difference_.size();
  // With averaged elements a chunk may need as much as in f32.
  if (!state.buffers)
    state.buffers.emplace(averaged_.empty() ? proto::payload_floats(form, chunk_) : chunk_);
  const std::size_t coded = proto::compressed_bytes(form, difference_.size());
  const auto buffer = state.buffers->take();
  const auto bytes = std::as_writable_bytes(std::span(*buffer));
  compressor_.compress(form, difference_, bytes.first(coded));
  const auto sent = proto::decompress(form.codec, bytes.first(coded), difference_);
  RUBATO_CHECK(sent.has_value(), "what was compressed decompresses");
  std::size_t next = 0;
  averaged_.for_each_other(reply.offset, reply.count, [&](std::uint64_t offset, std::uint64_t n) {
    const std::size_t first = offset - reply.offset;
    for (std::size_t i = first; i < first + n; ++i) held[i] += difference_[next++];
  });
  std::size_t at = coded;
  averaged_.for_each(reply.offset, reply.count, [&](std::uint64_t offset, std::uint64_t n) {
    const auto from = values.subspan(offset - reply.offset, n);
    std::ranges::copy(from, held.subspan(offset - reply.offset, n).begin());
    std::memcpy(bytes.data() + at, from.data(), from.size_bytes());
    at += from.size_bytes();
  });
  return proto::Payload::of(buffer).slice(0, at);
}

proto::Payload ReplyEncoder::compress(const Compression& form, std::span<const float> values,
                                      proto::BufferPool& buffers) {
  const std::size_t bytes = proto::compressed_bytes(form, values.size());
  const auto buffer = buffers.take();
  compressor_.compress(form, values, std::as_writable_bytes(std::span(*buffer)).first(bytes));
  return proto::Payload::of(buffer).slice(0, bytes);
}

}  // namespace rubato::server
