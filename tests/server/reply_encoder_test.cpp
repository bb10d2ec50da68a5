// What a worker gets from a shard, against a worker that adds up what it is sent.
#include "server/reply_encoder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/rng.hpp"
#include "tests/server/sent.hpp"
#include "worker/parameter_gather.hpp"

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

proto::Payload encode(ReplyEncoder& encoder, const proto::Payload& parameters, ReplyState& state,
                      proto::Parameters& head) {
  head.count = parameters.size() / sizeof(float);
  return encoder.encode(parameters, head.count, state, head);
}

Reply encode(ReplyEncoder& encoder, const std::vector<float>& parameters, ReplyState& state) {
  Reply reply;
  const auto payload = encode(encoder, tests::payload_of(parameters), state, reply.head);
  reply.values.resize(parameters.size());
  REQUIRE(proto::decompress(reply.head.codec, payload.bytes(), reply.values).has_value());
  reply.bytes = payload.size();
  return reply;
}

// Of the buffer that a payload lies in.
std::size_t buffer_floats(const proto::Payload& payload) {
  return static_cast<const Floats*>(payload.owner().get())->size();
}

bool same_memory(const proto::Payload& a, const proto::Payload& b) {
  return a.bytes().data() == b.bytes().data();
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
       {Compression{PayloadCodec::Int8}, Compression{PayloadCodec::TopK, 0.05}}) {
    CAPTURE(proto::codec_name(wanted.codec));
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
    for (std::size_t k = 0; k < worker.size(); ++k)
      CHECK(worker[k] == doctest::Approx(parameters[k]).epsilon(1e-4));
  }
}

TEST_CASE("what was noted is let go of with the first commit that wants no differences") {
  for (const auto codec : {PayloadCodec::F32, PayloadCodec::F16, PayloadCodec::Bf16}) {
    CAPTURE(proto::codec_name(codec));
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

const Compression kEdges[] = {{PayloadCodec::Int8},
                              {PayloadCodec::F16},
                              {PayloadCodec::TopK, 1},
                              {PayloadCodec::TopK, 0.75},
                              {PayloadCodec::TopK, 1e-9}};

TEST_CASE("a reply that no codec makes smaller is f32, and the next difference builds on it") {
  for (const Compression& wanted : kEdges) {
    for (const std::size_t size : {1U, 2U, 3U, 4U, 257U}) {
      CAPTURE(proto::codec_name(wanted.codec));
      CAPTURE(wanted.keep);
      CAPTURE(size);
      Rng rng(4);
      ReplyEncoder encoder(size), blank(size, true);
      ReplyState state, blank_state;
      std::vector<float> worker;
      for (int i = 0; i < 3; ++i) {
        const auto parameters = random_values(rng, size);
        state.want(wanted, i > 0);
        blank_state.want(wanted, i > 0);
        const Reply reply = encode(encoder, parameters, state);
        CHECK(reply.bytes <= 4 * size);
        CHECK(reply.head.noted == proto::is_difference(wanted.codec));
        proto::Parameters head;
        const auto anything = tests::payload_of(std::vector<float>(size));
        CHECK(encode(blank, anything, blank_state, head).size() == reply.bytes);
        CHECK(head.codec == reply.head.codec);
        CHECK(head.noted == reply.head.noted);
        if (!reply.head.noted) continue;
        if (reply.head.codec == PayloadCodec::F32) {
          CHECK(reply.values == parameters);
          worker = reply.values;
        } else {
          for (std::size_t k = 0; k < size; ++k) worker[k] += reply.values[k];
        }
        CHECK(worker == state.held);
      }
    }
  }
}

TEST_CASE("f32 is the parameters where they lie, and what is compressed has a buffer of its size") {
  Rng rng(5);
  const auto first = tests::payload_of(random_values(rng, 1000));
  const auto second = tests::payload_of(random_values(rng, 1000));
  for (const Compression& wanted : {Compression{PayloadCodec::F16}, Compression{PayloadCodec::Int8},
                                    Compression{PayloadCodec::TopK, 0.01}}) {
    CAPTURE(proto::codec_name(wanted.codec));
    ReplyEncoder encoder(1000);
    ReplyState state;
    proto::Parameters head;
    state.want(wanted, false);
    auto payload = encode(encoder, first, state, head);
    if (head.noted) {
      CHECK(same_memory(payload, first));
      state.want(wanted, true);
      payload = encode(encoder, second, state, head);
    }
    CHECK(head.codec == wanted.codec);
    CHECK(buffer_floats(payload) == (payload.size() + 3) / 4);
    state.want({PayloadCodec::TopK, 0.5}, true);  // another form, another size
    encode(encoder, first, state, head);
    payload = encode(encoder, second, state, head);
    CHECK(head.codec == PayloadCodec::TopK);
    CHECK(buffer_floats(payload) == (payload.size() + 3) / 4);
  }
}

TEST_CASE("parameters that stay the same are halved once for all, and anew when they may change") {
  Rng rng(6);
  const auto parameters = tests::payload_of(random_values(rng, 300));
  ReplyEncoder encoder(300);
  ReplyState a{.wanted = {PayloadCodec::F16}}, b = a, other{.wanted = {PayloadCodec::Bf16}};
  proto::Parameters head, later;
  later.offset = 300;
  encoder.begin_same();
  const auto bf16 = encode(encoder, parameters, other, head);
  const auto one = encode(encoder, parameters, a, head);
  CHECK(head.codec == PayloadCodec::F16);
  CHECK(same_memory(encode(encoder, parameters, b, head), one));
  CHECK(same_memory(encode(encoder, parameters, other, head), bf16));
  CHECK_FALSE(same_memory(encode(encoder, parameters, a, later), one));
  CHECK_FALSE(same_memory(bf16, one));
  encoder.end_same();
  const auto again = encode(encoder, parameters, a, head);
  CHECK_FALSE(same_memory(again, one));
  CHECK_FALSE(same_memory(encode(encoder, parameters, b, head), again));
}

// A worker holds the averaged elements to the bit, under every codec of differences.
TEST_CASE("a difference has the values of averaged elements") {
  const proto::AveragedElements averaged({{0, 1}, {70, 90}, {199, 200}});
  for (const auto& form :
       {Compression{PayloadCodec::Int8}, Compression{PayloadCodec::TopK, 0.01}}) {
    CAPTURE(proto::codec_name(form.codec));
    Rng rng(2);
    ReplyEncoder encoder(100, false, averaged);
    ReplyState state{.wanted = form};
    proto::ShardMap shards;
    shards.shards.push_back({{0, 200}, "server"});
    worker::ParameterGather gather(shards, false, averaged);
    auto parameters = random_values(rng, 200);
    for (Sequence sequence = 1; sequence < 6; ++sequence) {
      CAPTURE(sequence);
      for (float& value : parameters) value += 0.01f * static_cast<float>(rng.normal());
      parameters[80] = 3e4f + static_cast<float>(sequence);
      gather.begin(sequence);
      for (const std::uint64_t offset : {0, 100}) {
        proto::Parameters head;
        head.sequence = sequence;
        head.offset = offset;
        head.count = 100;
        head.total = 200;
        const auto chunk = tests::payload_of(
            std::vector<float>(parameters.begin() + static_cast<std::ptrdiff_t>(offset),
                               parameters.begin() + static_cast<std::ptrdiff_t>(offset) + 100));
        const auto payload = encoder.encode(chunk, 200, state, head);
        CHECK(payload.size() <= 400);
        REQUIRE(gather.add(0, head, payload).has_value());
        if (sequence == 1) continue;
        CHECK(head.codec == form.codec);
        CHECK(head.averaged == averaged.count(offset, 100));
      }
      state.want(form, true);
      REQUIRE_FALSE(gather.active());
      const auto held = gather.values();
      for (std::size_t i = 0; i < held.size(); ++i)
        CHECK(held[i] == state.held[i]);  // the next difference begins where the worker is
      for (const std::size_t i : {0, 70, 80, 89, 199}) CHECK(held[i] == parameters[i]);
      CHECK(std::abs(held[1] - parameters[1]) < 0.2f);
    }
  }
}

}  // namespace
}  // namespace rubato::server
