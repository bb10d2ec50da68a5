// What a worker is told when it asks where its commit stands, and lives of a worker.
#include <doctest/doctest.h>

#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using proto::RefusalCode;
using tests::bodies;
using tests::sent;
using Offsets = std::vector<std::uint64_t>;

TEST_CASE("probe: of a commit of which nothing arrived: unknown") {
  ServerWorld shard;
  shard.members(1, {0});
  const auto answer = shard.probe(0, 2);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].sequence == 2);
  CHECK(answer[0].unknown);
  CHECK_FALSE(answer[0].held);
  CHECK(answer[0].missing_offsets.empty());
}

TEST_CASE("probe: of a commit partly there: exactly the chunks that are missing") {
  ServerWorld shard;
  shard.members(1, {0});
  const auto chunks = shard.chunks(0, 2, kOnes);
  shard.hear(chunks[1]);
  auto answer = shard.probe(0, 2);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].missing_offsets == Offsets{0, 4});
  CHECK_FALSE(answer[0].unknown);
  CHECK_FALSE(answer[0].held);

  shard.hear(chunks[2]);
  answer = shard.probe(0, 2);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].missing_offsets == Offsets{0});
  shard.hear(chunks[0]);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 1");
}

TEST_CASE("probe: of a huge commit in tiny chunks no more is named than a message carries") {
  ServerSetup setup;
  setup.initial.assign(2 * proto::kMissingOffsetsMax, 0.0f);
  ServerWorld shard(setup);
  shard.members(1, {0});
  shard.hear(shard.chunk(0, 2, 1, {1.0f}));
  const auto answer = shard.probe(0, 2);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].missing_offsets.size() == proto::kMissingOffsetsMax);
  CHECK(answer[0].missing_offsets.back() == proto::kMissingOffsetsMax);  // all but the one here
}

TEST_CASE("probe: of a commit of which only the short last chunk arrived: send all") {
  ServerWorld shard;
  shard.members(1, {0});
  const auto chunks = shard.chunks(0, 2, kOnes);
  shard.hear(chunks[2]);
  const auto answer = shard.probe(0, 2);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].unknown);
  shard.commit(0, 2, kOnes);  // all of it, the last chunk a second time
  CHECK(shard.core.stats().messages_refused == 0);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 1");
  CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
}

TEST_CASE("probe: of a commit that the gate holds: held") {
  ServerSetup setup;
  setup.sync = "bsp";
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  shard.commit(0, 2, kOnes);
  const auto answer = shard.probe(0, 2);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].held);
  CHECK_FALSE(answer[0].unknown);
}

// However often it is asked: the answer may only be late, and bulk behind bulk makes it later.
TEST_CASE("probe: of a commit that was answered: that, and not a byte of parameters") {
  ServerSetup setup;
  SUBCASE("chunk by chunk") {}
  SUBCASE("by a gate") {
    setup.sync = "ssp";
    setup.staleness = 9;
  }
  ServerWorld shard(setup);
  shard.members(1, {0, 1});
  shard.commit(0, 2, kOnes);
  sent(shard.core);
  for (std::uint32_t number = 1; number < 5; ++number) {
    shard.hear(ServerWorld::message(0, proto::Probe{2, number}));
    const auto answer = sent(shard.core);
    REQUIRE(answer.size() == 1);
    const auto& reply = std::get<proto::ProbeReply>(answer[0].message.body);
    CHECK(reply.answered);
    CHECK(reply.number == number);
    CHECK_FALSE(reply.held);
    CHECK_FALSE(reply.unknown);
  }
}

TEST_CASE("pull: the chunks of an answer that did not come, as they are now, nothing applied") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  shard.commit(0, 2, kOnes);
  shard.commit(1, 2, kOnes);
  sent(shard.core);
  shard.hear(ServerWorld::message(0, proto::Pull{2, {2, 4}}));
  const auto answer = sent(shard.core);
  REQUIRE(answer.size() == 2);
  CHECK(replies(answer) == "worker 0: seq 2 version 2");
  CHECK(tests::values_of(answer[0].message.payload) == std::vector<float>{28, 38});
  CHECK(tests::values_of(answer[1].message.payload) == std::vector<float>{48});
  for (const auto& out : answer) CHECK_FALSE(std::get<proto::Parameters>(out.message.body).noted);
  CHECK(shard.core.version() == 2);
  CHECK(shard.core.stats().commits_applied == 2);
}

TEST_CASE("pull: no list of chunks costs more than all of them") {
  ServerWorld shard;
  shard.members(1, {0});
  sent(shard.core);
  std::vector<std::uint64_t> offsets(1000, 2);
  offsets.insert(offsets.end(), {0, 5, 1'000'000, ~std::uint64_t{0}, 4});
  shard.hear(ServerWorld::message(0, proto::Pull{1, offsets}));
  const auto answer = bodies<proto::Parameters>(sent(shard.core), peer_of(0));
  REQUIRE(answer.size() == 2);
  CHECK(answer[0].offset == 2);
  CHECK(answer[1].offset == 4);
  shard.hear(
      ServerWorld::message(0, proto::Pull{1, {1, 3}}));  // to the ends of the shard's own chunks
  const auto odd = bodies<proto::Parameters>(sent(shard.core), peer_of(0));
  REQUIRE(odd.size() == 2);
  CHECK(odd[0].count == 1);
  CHECK(odd[1].count == 1);
}

TEST_CASE("probe: of a pull: unknown, for a shard remembers no pulls") {
  ServerWorld shard;
  shard.members(1, {0});
  shard.hear(ServerWorld::message(0, proto::Pull{1}));
  const auto answer = shard.probe(0, 1);
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].unknown);
}

TEST_CASE("exactly once: a whole commit sent again is answered once, by its first chunk") {
  ServerWorld shard;
  shard.members(1, {0});
  shard.commit(0, 2, kOnes);
  sent(shard.core);
  shard.commit(0, 2, kOnes);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 1");
  CHECK(shard.core.stats().commits_applied == 1);
  CHECK(shard.core.stats().commits_repeated == 3);  // chunks
}

TEST_CASE("exactly once: a commit older than the last one is ignored") {
  ServerWorld shard;
  shard.members(1, {0});
  shard.commit(0, 2, kOnes);
  shard.commit(0, 3, kOnes);
  sent(shard.core);
  shard.commit(0, 2, kOnes);
  CHECK(sent(shard.core).empty());
  CHECK(shard.core.version() == 2);
}

TEST_CASE("exactly once: a chunk of a commit that was given up does not mix with the next one") {
  ServerWorld shard;
  shard.members(1, {0});
  const auto given_up = shard.chunks(0, 2, std::vector<float>(5, 7.0f));
  shard.hear(given_up[0]);
  const auto next = shard.chunks(0, 3, kOnes);
  shard.hear(next[0]);
  shard.hear(given_up[1]);  // late
  shard.hear(next[1]);
  shard.hear(next[2]);
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 0, worker 0: seq 3 version 1");
  // What had arrived of the first one was applied on arrival; nothing of it later.
  CHECK(shard.parameters() == std::vector<float>{2, 12, 29, 39, 49});
}

TEST_CASE(
    "a new life of a worker: what its last life had not sent never comes, what arrived stays") {
  ServerWorld shard;
  shard.members(1, {0});
  shard.commit(0, 2, kOnes);
  const auto old = shard.chunks(0, 3, kOnes);
  shard.hear(old[0]);
  shard.from_scheduler(proto::Members{.epoch = 2, .members = {{{0}, 4242}}});
  sent(shard.core);

  shard.hear(old[1]);  // was still under way
  const auto refusals = bodies<proto::Refusal>(sent(shard.core), peer_of(0));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].code == RefusalCode::NotMember);

  // The new life begins at sequence 1 again, and every commit of it counts.
  for (auto chunk : shard.chunks(0, 1, kOnes)) {
    chunk.incarnation = 4242;
    shard.hear(chunk);
  }
  CHECK(replies(sent(shard.core)) == "worker 0: seq 1 version 2");
  CHECK(shard.parameters() == std::vector<float>{7, 17, 28, 38, 48});
}

}  // namespace
}  // namespace rubato::server
