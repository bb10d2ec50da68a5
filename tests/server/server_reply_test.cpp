// The form in which a shard answers, as commits ask for it.
#include <doctest/doctest.h>

#include <algorithm>

#include "proto/codec.hpp"
#include "proto/compression.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using proto::Compression;
using proto::PayloadCodec;
using tests::sent;
using Values = std::vector<float>;

// The chunks of a commit that asks for such replies, encoded and decoded as a transport would.
std::vector<proto::Message> asking(const ServerWorld& shard, std::uint32_t worker,
                                   Sequence sequence, const Values& update,
                                   const Compression& wanted) {
  std::vector<proto::Message> chunks = shard.chunks(worker, sequence, update);
  for (proto::Message& chunk : chunks) {
    auto& commit = std::get<proto::Commit>(chunk.body);
    commit.reply_codec = wanted.codec;
    commit.reply_keep = wanted.keep;
    commit.reply_based = true;
    const auto frames = proto::encode(chunk);
    chunk = proto::decode(frames.control, frames.payload).value();
  }
  return chunks;
}

TEST_CASE("every form that a commit may ask for is answered, whatever the size of the shard") {
  const Compression forms[] = {{PayloadCodec::F16},       {PayloadCodec::Bf16},
                               {PayloadCodec::Int8},      {PayloadCodec::TopK, 1},
                               {PayloadCodec::TopK, 0.5}, {PayloadCodec::TopK, 1e-9}};
  for (const char* sync : {"asp", "bsp"}) {
    for (const std::size_t size : {1U, 2U, 3U, 5U}) {
      for (const std::uint64_t chunk : {1U, 2U, 8U}) {
        for (const Compression& wanted : forms) {
          CAPTURE(sync);
          CAPTURE(size);
          CAPTURE(chunk);
          CAPTURE(proto::codec_name(wanted.codec));
          CAPTURE(wanted.keep);
          ServerWorld shard({.sync = sync, .initial = Values(size, 10), .chunk = chunk});
          shard.members(1, {0});
          for (Sequence s = 1; s <= 2; ++s)
            for (const auto& part : asking(shard, 0, s, Values(size, 1), wanted)) shard.hear(part);
          std::size_t answered = 0;
          for (const auto& out : sent(shard.core)) {
            const auto* reply = std::get_if<proto::Parameters>(&out.message.body);
            if (!reply) continue;
            answered += reply->count;
            CHECK(out.message.payload.size() <= 4 * reply->count);
            CHECK(reply->noted == proto::is_difference(wanted.codec));
            Values values(reply->count);
            CHECK(proto::decompress(reply->codec, out.message.payload.bytes(), values));
          }
          CHECK(answered == 2 * size);
        }
      }
    }
  }
}

TEST_CASE("bsp: those who want halves share them, and the next round has its own") {
  ServerWorld shard({.sync = "bsp", .initial = Values(4, 10), .chunk = 2});
  shard.members(1, {0, 1, 2});
  std::vector<proto::ToPeer> all;  // nothing of it is let go of
  for (Sequence s = 1; s <= 2; ++s) {
    for (const std::uint32_t worker : {0U, 1U, 2U})
      for (const auto& part : asking(shard, worker, s, Values(4, 1), {PayloadCodec::F16}))
        shard.hear(part);
    std::vector<proto::ToPeer> round;
    for (auto& out : sent(shard.core))
      if (std::holds_alternative<proto::Parameters>(out.message.body)) round.push_back(out);
    REQUIRE(round.size() == 6);
    for (std::size_t i = 0; i < round.size(); ++i) {
      const auto& payload = round[i].message.payload;
      CHECK(payload.bytes().data() == round[i % 2].message.payload.bytes().data());
      Values values(2);
      REQUIRE(proto::decompress(PayloadCodec::F16, payload.bytes(), values).has_value());
      CHECK(values == Values(2, 10 - 3 * static_cast<float>(s)));
    }
    all.insert(all.end(), round.begin(), round.end());
  }
  CHECK(all[0].message.payload.bytes().data() != all[6].message.payload.bytes().data());
  Values first(2);
  REQUIRE(proto::decompress(PayloadCodec::F16, all[0].message.payload.bytes(), first).has_value());
  CHECK(first == Values(2, 7));
}

TEST_CASE("asp: each answer in halves is of the parameters at that time") {
  ServerWorld shard({.initial = Values(2, 10), .chunk = 2});
  shard.members(1, {0, 1});
  float expected = 10;
  std::vector<proto::ToPeer> all;
  for (Sequence s = 1; s <= 3; ++s) {
    for (const std::uint32_t worker : {0U, 1U}) {
      shard.hear(asking(shard, worker, s, Values(2, 1), {PayloadCodec::Bf16})[0]);
      for (const auto& out : sent(shard.core)) {
        if (!std::holds_alternative<proto::Parameters>(out.message.body)) continue;
        Values values(2);
        const auto bytes = out.message.payload.bytes();
        REQUIRE(proto::decompress(PayloadCodec::Bf16, bytes, values).has_value());
        expected -= 1;
        CHECK(values == Values(2, expected));
        all.push_back(out);
      }
    }
  }
  CHECK(all.size() == 6);
}

}  // namespace
}  // namespace rubato::server
