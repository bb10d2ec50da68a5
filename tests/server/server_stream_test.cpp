// A shard under a gate that streams: chunks are applied and answered one by one, each exactly once.
#include <doctest/doctest.h>

#include <limits>

#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using tests::bodies;
using tests::sent;
using Values = std::vector<float>;

struct Answer {
  proto::Parameters chunk;
  Values values;
};

// Returns: the one answer to `message`.
Answer answer(ServerWorld& shard, const proto::Message& message) {
  sent(shard.core);
  shard.hear(message);
  const auto out = sent(shard.core);
  REQUIRE(out.size() == 1);
  return {std::get<proto::Parameters>(out[0].message.body),
          tests::values_of(out[0].message.payload)};
}

TEST_CASE("streaming: each chunk is applied when it arrives and answered with its parameters") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  const auto chunks = shard.chunks(0, 2, kOnes);

  const Answer middle = answer(shard, chunks[1]);
  CHECK(middle.values == Values{29, 39});
  CHECK(middle.chunk.sequence == 2);
  CHECK(middle.chunk.offset == 2);
  CHECK(middle.chunk.total == 5);
  CHECK(middle.chunk.version == 0);
  CHECK(middle.chunk.held == Duration{});
  CHECK(shard.parameters() == Values{10, 20, 29, 39, 50});

  CHECK(answer(shard, shard.chunks(1, 2, {5, 5, 5, 5, 5})[1]).values == Values{24, 34});
  CHECK(answer(shard, chunks[2]).values == Values{49});
  CHECK(shard.core.version() == 0);
  const Answer last = answer(shard, chunks[0]);  // the last to arrive makes the commit complete
  CHECK(last.values == Values{9, 19});
  CHECK(last.chunk.version == 1);
  CHECK(shard.core.version() == 1);
  CHECK(shard.core.stats().commits_applied == 1);
}

TEST_CASE("streaming: a repeated chunk is answered with what is there now, and not applied again") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  const auto chunks = shard.chunks(0, 2, kOnes);
  answer(shard, chunks[0]);
  answer(shard, shard.chunks(1, 2, {2, 2, 2, 2, 2})[0]);
  CHECK(answer(shard, chunks[0]).values == Values{7, 17});  // the commit is still under way
  answer(shard, chunks[1]);
  answer(shard, chunks[2]);
  CHECK(answer(shard, chunks[0]).values == Values{7, 17});  // the commit is complete
  CHECK(shard.parameters() == Values{7, 17, 29, 39, 49});
  CHECK(shard.core.stats().commits_repeated == 2);
}

TEST_CASE("streaming: an answer under way keeps its values") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  sent(shard.core);
  shard.hear(shard.chunks(0, 2, kOnes)[0]);
  const auto under_way = sent(shard.core);
  shard.hear(shard.chunks(1, 2, kOnes)[0]);
  const auto later = sent(shard.core);
  CHECK(tests::values_of(under_way.at(0).message.payload) == Values{9, 19});
  CHECK(tests::values_of(later.at(0).message.payload) == Values{8, 18});
}

TEST_CASE("streaming: NaN or infinity in the k-th chunk refuses it and the rest") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (std::size_t at = 0; at < 5; ++at) {
      CAPTURE(bad);
      CAPTURE(at);
      ServerWorld shard;
      shard.members(1, {0});
      Values update = kOnes;
      update[at] = bad;
      Values expected = ServerSetup().initial;
      const std::size_t k = at / 2;
      for (std::size_t i = 0; i < 2 * k; ++i) expected[i] -= 1;

      const auto chunks = shard.chunks(0, 2, update);
      for (std::size_t i = 0; i < chunks.size(); ++i)
        CHECK(answer(shard, chunks[i]).chunk.refused == (i >= k));
      CHECK(shard.parameters() == expected);
      CHECK(shard.core.version() == 0);
      CHECK(shard.core.stats().commits_refused == 1);
      CHECK(shard.core.stats().commits_applied == 0);

      sent(shard.core);
      shard.hear(
          ServerWorld::message(0, proto::Pull{2}));  // the answer was lost: the same one again
      CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 0 refused");
      shard.commit(0, 3, kOnes);
      CHECK(replies(sent(shard.core)) == "worker 0: seq 3 version 1");
    }
  }
}

TEST_CASE("streaming: an update that its worker says to discard is not applied anywhere") {
  ServerWorld shard;
  shard.members(1, {0});
  for (auto chunk : shard.chunks(0, 2, kOnes)) {
    std::get<proto::Commit>(chunk.body).discard = true;
    CHECK(answer(shard, chunk).chunk.refused);
  }
  CHECK(shard.parameters() == ServerSetup().initial);
  CHECK(shard.core.version() == 0);
}

TEST_CASE("streaming: a worker that dies halfway leaves its chunks, and its next life goes on") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  const auto chunks = shard.chunks(0, 2, kOnes);
  answer(shard, chunks[0]);
  shard.members(2, {1});
  sent(shard.core);
  shard.hear(chunks[1]);
  CHECK(bodies<proto::Refusal>(sent(shard.core), peer_of(0)).size() == 1);
  shard.members(3, {0, 1});
  CHECK(shard.parameters() == Values{9, 19, 30, 40, 50});
  CHECK(shard.core.version() == 0);
  shard.commit(0, 2, kOnes);
  CHECK(shard.parameters() == Values{8, 18, 29, 39, 49});
  CHECK(shard.core.version() == 1);
}

TEST_CASE("streaming: chunks larger than the shard's own are answered in pieces of its size") {
  ServerWorld shard;
  shard.members(1, {0});
  sent(shard.core);
  shard.hear(shard.chunk(0, 2, 0, kOnes));
  Values pulled;
  for (const auto& out : sent(shard.core)) {
    const auto& chunk = std::get<proto::Parameters>(out.message.body);
    CHECK(chunk.offset == pulled.size());
    CHECK(chunk.version == 1);
    const auto values = tests::values_of(out.message.payload);
    CHECK(values.size() == chunk.count);
    pulled.insert(pulled.end(), values.begin(), values.end());
  }
  CHECK(pulled == Values{9, 19, 29, 39, 49});
}

TEST_CASE("held: each chunk but the last is acknowledged, for the sender's credit") {
  ServerSetup setup;
  setup.sync = "bsp";
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  const auto chunks = shard.chunks(0, 2, kOnes);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    sent(shard.core);
    shard.hear(chunks[i]);
    const auto acks = bodies<proto::ProbeReply>(sent(shard.core), peer_of(0));
    REQUIRE(acks.size() == (i + 1 < chunks.size() ? 1 : 0));
    if (acks.empty()) continue;
    CHECK(acks[0].sequence == 2);
    CHECK_FALSE(acks[0].held);
    CHECK_FALSE(acks[0].unknown);
    CHECK(acks[0].missing_offsets.empty());
  }
  CHECK(shard.parameters() == setup.initial);
}

}  // namespace
}  // namespace rubato::server
