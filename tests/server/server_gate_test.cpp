// A shard under each gate: when commits are applied, in what order, and when replies are released.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "proto/compression.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using tests::sent;

ServerSetup with(const char* sync, int staleness = 0) {
  ServerSetup setup;
  setup.sync = sync;
  setup.staleness = staleness;
  return setup;
}

std::vector<float> fives(float value) {
  // NOLINTNEXTLINE(modernize-return-braced-init-list): in braces it would have two elements
  return std::vector<float>(5, value);
}

TEST_CASE("asp: each commit is applied and answered at once, one version each") {
  ServerWorld shard(with("asp"));
  shard.members(1, {0, 1});
  shard.commit(1, 2, fives(1));
  CHECK(replies(sent(shard.core)) == "worker 1: seq 2 version 1");
  shard.commit(1, 3, fives(1));
  CHECK(replies(sent(shard.core)) == "worker 1: seq 3 version 2");
  shard.commit(0, 2, fives(1));
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 3");
  CHECK(shard.parameters() == std::vector<float>{7, 17, 27, 37, 47});
}

TEST_CASE("the global rate is 1/m with the members of the moment") {
  ServerSetup setup = with("asp");
  setup.optimizer = {};
  ServerWorld shard(setup);
  shard.members(1, {0, 1, 2, 3});
  shard.commit(0, 2, fives(4));
  CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
  shard.members(2, {0, 1});
  shard.commit(0, 3, fives(4));
  CHECK(shard.parameters() == std::vector<float>{7, 17, 27, 37, 47});
}

TEST_CASE("asp: who joins while a commit arrives changes nothing for the rest of it") {
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::DelayedNesterov}) {
    ServerSetup setup = with("asp");
    setup.optimizer = {.kind = kind, .momentum = kind == OptimizerKind::Sgd ? 0.0 : 0.5};
    setup.initial = std::vector<float>(6, 10);
    ServerWorld shard(setup);
    shard.members(1, {0, 1});
    for (Sequence sequence = 2; sequence < 6; ++sequence) {
      const auto chunks = shard.chunks(0, sequence, std::vector<float>(6, 4));
      shard.hear(chunks[0]);
      shard.members(2 * sequence, {0, 1, 2, 3});
      shard.hear(chunks[1]);
      shard.members(2 * sequence + 1, {0, 1});
      shard.hear(chunks[2]);
    }
    const auto after = shard.parameters();
    CHECK(after[0] < 10);
    CHECK(after == std::vector<float>(6, after[0]));
  }
}

TEST_CASE("bsp: a kept update that its sender changes is refused, and the round goes on") {
  ServerWorld shard(with("bsp"));
  shard.members(1, {0, 1});
  const proto::Compression int8{proto::PayloadCodec::Int8};
  const auto bytes = std::make_shared<std::vector<std::byte>>(proto::compressed_bytes(int8, 5));
  proto::Compressor().compress(int8, fives(1), *bytes);
  proto::Message commit = ServerWorld::message(
      0, proto::Commit{.sequence = 2, .count = 5, .total = 5, .steps = 1, .codec = int8.codec},
      {bytes, *bytes});
  shard.hear(commit);
  sent(shard.core);
  std::ranges::fill(*bytes, std::byte{0xff});  // a scale that is not a number
  shard.commit(1, 2, fives(1));
  const auto said = sent(shard.core);
  const auto refusals = tests::bodies<proto::Refusal>(said, peer_of(0));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].message.starts_with("worker 0: commit 2 was changed after it was sent"));
  CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
  CHECK(replies(said) == "worker 0: seq 2 version 2, worker 1: seq 2 version 2");
}

TEST_CASE("bsp: applied in worker-id order whatever the order of arrival, to the bit") {
  // Sums of these differ with their order.
  const std::vector<std::vector<float>> updates = {fives(1e8f), fives(3.14f), fives(-1e8f)};
  std::vector<std::uint32_t> arrival = {0, 1, 2};
  ServerSetup setup = with("bsp");
  setup.update_limit = 0;
  std::vector<float> expected = setup.initial;
  for (const auto& update : updates)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= update[i];
  do {
    ServerWorld shard(setup);
    shard.members(1, {0, 1, 2});
    for (const auto worker : arrival) {
      CHECK(replies(sent(shard.core)) == "");
      shard.commit(worker, 2, updates[worker]);
    }
    CHECK(replies(sent(shard.core)) ==
          "worker 0: seq 2 version 3, worker 1: seq 2 version 3, worker 2: seq 2 version 3");
    CHECK(shard.parameters() == expected);
  } while (std::next_permutation(arrival.begin(), arrival.end()));
}

TEST_CASE("bsp: each reply says how long the gate held its commit") {
  ServerWorld shard(with("bsp"));
  shard.members(1, {0, 1});
  shard.commit(0, 2, fives(1));
  shard.now = shard.now + Duration::from_ms(250);
  shard.commit(1, 2, fives(1));
  CHECK(replies(sent(shard.core)) ==
        "worker 0: seq 2 version 2 held 250 ms, worker 1: seq 2 version 2");
}

TEST_CASE("bsp: a round closes over those who remain when a member is removed") {
  ServerWorld shard(with("bsp"));
  shard.members(1, {0, 1, 2});
  shard.commit(0, 2, fives(1));
  shard.commit(2, 2, fives(1));
  SUBCASE("that had not committed: the others' commits are applied") {
    sent(shard.core);
    shard.members(2, {0, 2});
    CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 2, worker 2: seq 2 version 2");
    CHECK(shard.parameters() == std::vector<float>{8, 18, 28, 38, 48});
  }
  SUBCASE("with its commit held: that commit is dropped") {
    shard.members(2, {0, 1});
    sent(shard.core);
    shard.commit(1, 2, fives(10));
    CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 2, worker 1: seq 2 version 2");
    CHECK(shard.parameters() == std::vector<float>{-1, 9, 19, 29, 39});
  }
  SUBCASE("two at once, one with its commit held: neither is applied") {
    sent(shard.core);
    shard.members(2, {0});
    CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 1");
    CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
  }
}

TEST_CASE("bsp: two leave at once, the lower id with its commit held") {
  ServerWorld shard(with("bsp"));
  shard.members(1, {0, 1, 2});
  shard.commit(1, 2, fives(1));
  shard.commit(2, 2, fives(1));
  sent(shard.core);
  shard.members(2, {2});  // removing 0 closes the round; 1 is gone by then
  CHECK(replies(sent(shard.core)) == "worker 2: seq 2 version 1");
  CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
}

TEST_CASE("bsp: a round waits for a worker that joined in the middle of it") {
  ServerWorld shard(with("bsp"));
  shard.members(1, {0, 1});
  shard.commit(0, 2, fives(1));
  shard.members(2, {0, 1, 2});
  shard.commit(1, 2, fives(1));
  CHECK(replies(sent(shard.core)) == "");
  shard.commit(2, 2, fives(1));
  CHECK(replies(sent(shard.core)) ==
        "worker 0: seq 2 version 3, worker 1: seq 2 version 3, worker 2: seq 2 version 3");
}

TEST_CASE("ssp: applied at once, the fast one held until the slow one follows") {
  ServerWorld shard(with("ssp", 1));
  shard.members(1, {0, 1});
  shard.commit(0, 2, fives(1));
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 1");
  shard.commit(0, 3, fives(1));  // two ahead of worker 1
  CHECK(shard.core.version() == 2);
  CHECK(shard.parameters() == std::vector<float>{8, 18, 28, 38, 48});
  CHECK(replies(sent(shard.core)) == "");
  shard.now = shard.now + Duration::from_ms(40);
  shard.commit(1, 2, fives(1));
  CHECK(replies(sent(shard.core)) ==
        "worker 0: seq 3 version 3 held 40 ms, worker 1: seq 2 version 3");
}

TEST_CASE("ssp: who waited for a member that is removed is released") {
  ServerWorld shard(with("ssp", 0));
  shard.members(1, {0, 1});
  shard.commit(0, 2, fives(1));
  sent(shard.core);
  shard.members(2, {0});
  CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 1");
}

// --- NaN and infinity ----------------------------------------------------------------------------

TEST_CASE("a held commit with NaN or infinity: refused, counted, and nothing of it applied") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    CAPTURE(bad);
    ServerWorld shard(with("ssp", 9));
    shard.members(1, {0});
    shard.commit(0, 2, {1, 1, 1, 1, bad});
    CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 0 refused");
    CHECK(shard.core.stats().commits_refused == 1);
    CHECK(shard.core.stats().commits_applied == 0);
    CHECK(shard.parameters() == with("ssp").initial);

    shard.hear(ServerWorld::message(0, proto::Pull{2}));  // the answer was lost: the same one again
    CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 0 refused");
    CHECK(shard.core.stats().commits_refused == 1);

    shard.commit(0, 3, fives(1));
    CHECK(replies(sent(shard.core)) == "worker 0: seq 3 version 1");
    CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
  }
}

TEST_CASE("bsp: a round with a NaN commit closes over the others") {
  ServerWorld shard(with("bsp"));
  shard.members(1, {0, 1, 2});
  shard.commit(1, 2, {1, 1, std::numeric_limits<float>::quiet_NaN(), 1, 1});
  shard.commit(2, 2, fives(1));
  shard.commit(0, 2, fives(1));
  CHECK(replies(sent(shard.core)) ==
        "worker 0: seq 2 version 2, worker 1: seq 2 version 2 refused, "
        "worker 2: seq 2 version 2");
  CHECK(shard.core.stats().commits_refused == 1);
  CHECK(shard.parameters() == std::vector<float>{8, 18, 28, 38, 48});
}

}  // namespace
}  // namespace rubato::server
