// A shard that takes its initial values from a worker: whose it takes, under which number, and what
// follows, under gates that stream and gates that hold.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/server/server_world.hpp"

namespace rubato::server::seed_tests {
namespace {

using tests::bodies;
using tests::sent;

const std::vector<float> kValues = {1, -2, 3, -4, 5};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

ServerSetup blank(const char* sync = "asp") {
  ServerSetup setup;
  setup.sync = sync;
  setup.initial = std::vector<float>(5);
  setup.keeps_initial = true;
  setup.seeds = true;
  return setup;
}

struct SeedWorld : ServerWorld {
  using ServerWorld::ServerWorld;
  explicit SeedWorld(const char* sync = "asp") : ServerWorld(blank(sync)) {}

  // A list that names `seeder` the `seeding`-th time.
  void name(std::uint64_t epoch, std::uint32_t seeding, std::uint32_t seeder,
            const std::vector<std::uint32_t>& workers = {0, 1}) {
    proto::Members list{.epoch = epoch, .members = {}};
    for (const auto worker : workers) list.members.push_back({{worker}, life_of(worker)});
    list.seeding = seeding;
    list.seeder = {seeder};
    from_scheduler(std::move(list));
    sent(core);
  }
  std::vector<proto::Message> seeds(std::uint32_t worker, Sequence sequence, std::uint32_t seeding,
                                    const std::vector<float>& values = kValues) const {
    auto all = chunks(worker, sequence, values);
    for (auto& message : all) std::get<proto::Commit>(message.body).seeding = seeding;
    return all;
  }
  // Returns: what the shard says to it.
  std::vector<proto::ToPeer> seed(std::uint32_t worker, Sequence sequence, std::uint32_t seeding,
                                  const std::vector<float>& values = kValues) {
    sent(core);
    for (const auto& message : seeds(worker, sequence, seeding, values)) hear(message);
    return sent(core);
  }
  // The number that a heartbeat tells.
  std::uint32_t told() {
    sent(core);
    now = now + Duration::from_seconds(2);
    core.on_wakeup(now);
    const auto beats = bodies<proto::Heartbeat>(sent(core), kSchedulerPeer);
    REQUIRE_FALSE(beats.empty());
    return beats.back().seeded;
  }
};

TEST_CASE("seed: the shard begins with the values of the named worker, whatever its gate") {
  for (const char* sync : {"asp", "bsp", "adsp", "tempo", "fedbuff"}) {
    CAPTURE(sync);
    SeedWorld shard(sync);
    shard.name(1, 1, 1);
    CHECK(shard.told() == 0);
    const auto messages = shard.seeds(1, 1, 1);
    shard.hear(messages[2]);
    shard.hear(messages[0]);
    CHECK(shard.parameters() == std::vector<float>(5));  // not in part
    CHECK(bodies<proto::ProbeReply>(sent(shard.core), peer_of(1)).size() == 2);
    shard.hear(messages[1]);
    CHECK(shard.parameters() == kValues);
    const auto said = sent(shard.core);
    CHECK(replies(said) == "worker 1: seq 1 version 0");
    // The scheduler hears of it at once.
    const auto beats = bodies<proto::Heartbeat>(said, kSchedulerPeer);
    REQUIRE(beats.size() == 1);
    CHECK(beats[0].seeded == 1);
    CHECK(shard.core.stats().commits_applied == 0);
    CHECK(shard.core.poll_log() == "begins with the values of worker 1");
  }
}

TEST_CASE("seed: only the named worker, and only under its number") {
  SeedWorld shard;
  shard.name(1, 2, 1);
  CHECK(replies(shard.seed(0, 1, 2)) == "worker 0: seq 1 version 0 refused");  // another worker
  CHECK(replies(shard.seed(1, 1, 1)) == "worker 1: seq 1 version 0 refused");  // asked before
  CHECK(replies(shard.seed(1, 2, 3)) == "worker 1: seq 2 version 0 refused");  // never asked
  CHECK(shard.parameters() == std::vector<float>(5));
  CHECK(shard.told() == 0);
  CHECK(replies(shard.seed(1, 3, 2)) == "worker 1: seq 3 version 0");
  CHECK(shard.parameters() == kValues);
  CHECK(shard.told() == 2);
}

TEST_CASE("seed: nobody is named, so nobody is taken") {
  SeedWorld shard;
  shard.members(1, {0, 1});
  CHECK(replies(shard.seed(0, 1, 1)) == "worker 0: seq 1 version 0 refused");
  CHECK(shard.told() == 0);
}

TEST_CASE("seed: a stranger is told that it is no member") {
  SeedWorld shard;
  shard.name(1, 1, 1);
  const auto said = shard.seed(7, 1, 1);
  const auto refusals = bodies<proto::Refusal>(said, peer_of(7));
  REQUIRE_FALSE(refusals.empty());
  CHECK(refusals[0].code == proto::RefusalCode::NotMember);
  CHECK(shard.parameters() == std::vector<float>(5));
}

TEST_CASE("seed: a second one under the same number is refused, under a higher one taken") {
  SeedWorld shard;
  shard.name(1, 1, 1);
  shard.seed(1, 1, 1);
  const std::vector<float> others = {9, 9, 9, 9, 9};
  CHECK(replies(shard.seed(1, 2, 1, others)) == "worker 1: seq 2 version 0 refused");
  CHECK(shard.parameters() == kValues);
  // The first was lost before all shards had its values.
  shard.name(2, 2, 0, {0});
  CHECK(replies(shard.seed(0, 1, 2, others)) == "worker 0: seq 1 version 0");
  CHECK(shard.parameters() == others);
  CHECK(shard.told() == 2);
}

TEST_CASE("seed: values that are not finite, or too large, are refused as a whole") {
  for (const float wild :
       {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity,
        std::nextafter(kInitialMax, kInfinity), -std::nextafter(kInitialMax, kInfinity)}) {
    CAPTURE(wild);
    for (std::size_t where = 0; where < 5; ++where) {
      SeedWorld shard;
      shard.name(1, 1, 1);
      std::vector<float> values = kValues;
      values[where] = wild;
      CHECK(replies(shard.seed(1, 1, 1, values)) == "worker 1: seq 1 version 0 refused");
      CHECK(shard.parameters() == std::vector<float>(5));
      CHECK(shard.told() == 0);
    }
  }
  SeedWorld shard;
  shard.name(1, 1, 1);
  const std::vector<float> large = {kInitialMax, -kInitialMax, 0, 1e-45F, 1};
  CHECK(replies(shard.seed(1, 1, 1, large)) == "worker 1: seq 1 version 0");
  CHECK(shard.parameters() == large);
}

TEST_CASE("seed: a chunk that comes twice changes nothing, and the answer is told again") {
  for (const char* sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    SeedWorld shard(sync);
    shard.name(1, 1, 1);
    const auto messages = shard.seeds(1, 1, 1);
    shard.hear(messages[0]);
    shard.hear(messages[0]);
    shard.hear(messages[1]);
    shard.hear(messages[0]);
    CHECK(shard.parameters() == std::vector<float>(5));
    shard.hear(messages[2]);
    CHECK(replies(sent(shard.core)) == "worker 1: seq 1 version 0");
    for (const auto& message : messages) shard.hear(message);
    CHECK(replies(sent(shard.core)) == "worker 1: seq 1 version 0");
    CHECK(shard.parameters() == kValues);
    CHECK(shard.core.stats().messages_refused == 0);
    // A probe finds it answered.
    const auto probed = shard.probe(1, 1);
    REQUIRE(probed.size() == 1);
    CHECK(probed[0].missing_offsets.empty());
  }
}

TEST_CASE("seed: the seeder's first update comes after a pull, and so does that of the others") {
  for (const char* sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    SeedWorld shard(sync);
    shard.name(1, 1, 1);
    shard.seed(1, 1, 1);
    for (const std::uint32_t worker : {0U, 1U}) {
      const Sequence pull = worker == 1 ? 2 : 1;
      shard.hear(SeedWorld::message(worker, proto::Pull{pull}));
      CHECK(replies(sent(shard.core)) == fmt::format("worker {}: seq {} version 0", worker, pull));
    }
    // Any other number than the next one is a mistake.
    shard.commit(1, 5, kOnes);
    CHECK_FALSE(bodies<proto::Refusal>(sent(shard.core), peer_of(1)).empty());
    shard.commit(1, 3, kOnes);
    shard.commit(0, 2, kOnes);
    const auto said = sent(shard.core);
    CHECK(bodies<proto::Refusal>(said, peer_of(1)).empty());
    CHECK(replies(said).find("worker 1: seq 3") != std::string::npos);
    CHECK(replies(said).find("worker 0: seq 2") != std::string::npos);
    CHECK(shard.parameters() == std::vector<float>{-1, -4, 1, -6, 3});
    CHECK(shard.core.stats().commits_applied == 2);
  }
}

TEST_CASE("seed: what goes back goes back to the seeded values") {
  SeedWorld shard;
  shard.name(1, 1, 1, {1});
  shard.seed(1, 1, 1);
  shard.hear(SeedWorld::message(1, proto::Pull{2}));
  shard.commit(1, 3, kOnes);
  CHECK(shard.parameters()[0] == 0);
  proto::Members back{.epoch = 2, .members = {{{1}, life_of(1)}}};
  back.setbacks = 1;
  shard.from_scheduler(std::move(back));
  CHECK(shard.parameters() == kValues);
}

TEST_CASE("seed: a shard of a built-in model, and an elastic commit, take none") {
  ServerSetup setup = blank();
  setup.seeds = false;
  SeedWorld built_in(setup);
  built_in.name(1, 1, 1);
  CHECK(replies(built_in.seed(1, 1, 1)) == "worker 1: seq 1 version 0 refused");
  CHECK(built_in.told() == 0);

  SeedWorld shard;
  shard.name(1, 1, 1);
  auto messages = shard.seeds(1, 1, 1);
  for (auto& message : messages) {
    std::get<proto::Commit>(message.body).elastic = true;
    shard.hear(message);
  }
  CHECK(replies(sent(shard.core)) == "worker 1: seq 1 version 0 refused");
  CHECK(shard.parameters() == std::vector<float>(5));
}

TEST_CASE("seed: a commit is wholly initial values, or wholly an update") {
  for (const char* sync : {"asp", "bsp"}) {
    CAPTURE(sync);
    for (const bool seed_first : {false, true}) {
      CAPTURE(seed_first);
      SeedWorld shard(sync);
      shard.name(1, 1, 1);
      auto messages = shard.seeds(1, 1, 1, std::vector<float>(5, kInfinity));
      for (std::size_t i = seed_first ? 1 : 0; i < messages.size(); i += 2)
        std::get<proto::Commit>(messages[i].body).seeding = 0;
      for (const auto& message : messages) shard.hear(message);
      CHECK_FALSE(bodies<proto::Refusal>(sent(shard.core), peer_of(1)).empty());
      for (const float value : shard.parameters()) CHECK(value == 0);
      CHECK(shard.told() == 0);
    }
  }
}

}  // namespace
}  // namespace rubato::server::seed_tests
