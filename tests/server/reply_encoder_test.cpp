// What a worker gets from a shard, against a worker that adds up what it is sent.
#include "server/reply_encoder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "tests/server/sent.hpp"

namespace rubato::server {
namespace {

using proto::Compression;
using proto::PayloadCodec;

std::vector<float> random_values(Rng& rng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

struct Reply {
  proto::Parameters head;
  std::vector<float> values;
  std::size_t bytes = 0;
};

Reply encode(ReplyEncoder& encoder, std::span<const float> parameters, ReplyState& state) {
  Reply reply;
  reply.head.count = parameters.size();
  const auto payload = encoder.encode(parameters, parameters.size(), state, 1, reply.head);
  reply.values.resize(parameters.size());
  REQUIRE(proto::decompress(reply.head.codec, payload.bytes(), reply.values).has_value());
  reply.bytes = payload.size();
  return reply;
}

TEST_CASE("replies in halves are the parameters, and nothing is noted") {
  Rng rng(1);
  const auto parameters = random_values(rng, 300);
  ReplyEncoder encoder(300);
  for (const auto codec : {PayloadCodec::F16, PayloadCodec::Bf16}) {
    ReplyState state{.wanted = {codec}};
    const Reply reply = encode(encoder, parameters, state);
    CHECK(reply.head.codec == codec);
    CHECK_FALSE(reply.head.noted);
    CHECK(reply.bytes == 600);
    CHECK(state.held.empty());
    for (std::size_t i = 0; i < parameters.size(); ++i)
      CHECK(std::abs(reply.values[i] - parameters[i]) <= std::abs(parameters[i]) / 256 + 1e-7f);
  }
}

TEST_CASE("differences add up to the parameters at both ends alike") {
  for (const Compression& wanted :
       {Compression{PayloadCodec::Int8}, Compression{PayloadCodec::TopK, 0.05},
        Compression{PayloadCodec::RandomK, 0.05}}) {
    CAPTURE(codec_name(wanted.codec));
    Rng rng(2);
    auto parameters = random_values(rng, 300);
    ReplyEncoder encoder(300);
    ReplyState state{.wanted = wanted};
    const Reply first = encode(encoder, parameters, state);
    CHECK(first.head.codec == PayloadCodec::F32);
    CHECK(first.head.noted);
    CHECK(first.values == parameters);
    auto worker = first.values;
    state.based = true;
    parameters = random_values(rng, 300);
    for (int i = 0; i < 40; ++i) {
      const Reply next = encode(encoder, parameters, state);
      CHECK(next.head.codec == wanted.codec);
      CHECK(next.head.noted);
      CHECK(next.bytes < 100U + 300U);
      for (std::size_t k = 0; k < worker.size(); ++k) worker[k] += next.values[k];
      CHECK(worker == state.held);
    }
    if (wanted.codec == PayloadCodec::RandomK) continue;  // 40 draws of a twentieth: most, not all
    for (std::size_t k = 0; k < worker.size(); ++k)
      CHECK(worker[k] == doctest::Approx(parameters[k]).epsilon(1e-4));
  }
}

TEST_CASE("what was noted is let go of with the first commit that wants no differences") {
  for (const auto codec : {PayloadCodec::F32, PayloadCodec::F16, PayloadCodec::Bf16}) {
    CAPTURE(codec_name(codec));
    Rng rng(3);
    const auto parameters = random_values(rng, 300);
    ReplyEncoder encoder(300);
    ReplyState state;
    state.want({PayloadCodec::Int8}, false);
    encode(encoder, parameters, state);
    state.want({PayloadCodec::TopK, 0.05}, true);  // another difference: the same base
    CHECK(state.held == parameters);
    state.want({codec}, true);
    CHECK(state.held.capacity() == 0);
    // Back again: the first difference needs a base, whatever the worker says that it holds.
    state.want({PayloadCodec::Int8}, true);
    const Reply anew = encode(encoder, parameters, state);
    CHECK(anew.head.codec == PayloadCodec::F32);
    CHECK(anew.head.noted);
    CHECK(anew.values == parameters);
    CHECK(state.held == parameters);
  }
}

TEST_CASE("parameters that are not finite travel as f32") {
  const std::vector<float> parameters = {1, std::numeric_limits<float>::infinity(), 3};
  ReplyEncoder encoder(3);
  for (const auto codec : {PayloadCodec::F16, PayloadCodec::Int8}) {
    ReplyState state{.wanted = {codec}, .based = true, .any = true, .held = {1, 2, 3}};
    const Reply reply = encode(encoder, parameters, state);
    CHECK(reply.head.codec == PayloadCodec::F32);
    CHECK(reply.values == parameters);
  }
}

}  // namespace
}  // namespace rubato::server
