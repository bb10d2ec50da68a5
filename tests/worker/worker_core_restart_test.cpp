// A worker whose commit was refused, or whose servers have gone back to kept parameters: what it
// drops, and what it says of what it began at.
#include <doctest/doctest.h>

#include <limits>

#include "proto/compression.hpp"
#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

TEST_CASE("worker: what it trained on a commit that was refused is dropped, and never committed") {
  WorkerWorld world({.overlap = sync::Overlap::Always});
  world.get_ready();
  world.step();
  world.commit();
  world.step();
  world.step();  // the rule asks for the next commit, which has to wait for the reply
  world.sent();
  world.reply(0, 2, 3, Duration{}, true);
  world.restart();
  CHECK(world.core.next_action() == Action::Train);
  world.step();
  world.commit();
  const auto commits = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE_FALSE(commits.empty());
  CHECK(commits[0].steps == 1);
  CHECK(commits[0].weight == 1);
  world.reply(0, 3, 4);
  world.load();  // what it does next stands on what was accepted
}

// Returns: what the next commit says it began at.
std::uint32_t began(WorkerWorld& world) {
  world.step();
  world.commit();
  return bodies<proto::Commit>(world.sent(), server_node(0)).at(0).began;
}

TEST_CASE("worker: a commit says at what it began: the least of all shards") {
  WorkerWorld world({.parameters = 4, .shards = 2, .chunk = 4});
  world.get_ready();
  CHECK(began(world) == 0);
  world.reply(0, 2, 3, {}, true, 5);
  world.reply(1, 2, 3, {}, false, 4);  // hears of it later
  world.restart();
  CHECK(began(world) == 4);
  world.reply(0, 3, 3, {}, true, 5);
  world.reply(1, 3, 3, {}, true, 5);
  world.restart();
  CHECK(began(world) == 5);
  world.reply(0, 4, 3, {}, false, 5);
  world.reply(1, 4, 3, {}, false, 5);
  world.load();
}

TEST_CASE("worker: who was away while the shards went back drops what it had trained") {
  for (const std::uint32_t restores : {0u, 1u}) {
    WorkerWorld world({.overlap = sync::Overlap::Always});
    world.get_ready();
    world.step();
    world.commit();
    world.step();
    world.sent();
    world.hear(server_node(0), proto::Refusal{proto::RefusalCode::NotMember, "away"});
    world.welcome(5);
    world.hear(kSchedulerNode, proto::Start{});
    world.sent();
    world.reply(0, 3, 7, {}, false, restores);
    restores > 0 ? world.restart() : world.load();
    world.step();
    world.commit();
    const auto commit = bodies<proto::Commit>(world.sent(), server_node(0)).at(0);
    CHECK(commit.steps == (restores > 0 ? 1 : 2));
    CHECK(commit.began == restores);
  }
}

const proto::Compression kOneOfFour{.codec = proto::PayloadCodec::TopK, .keep = 0.25};

// Commits this after a step. Returns: what arrives of it.
std::vector<float> upload(WorkerWorld& world, const std::vector<float>& update,
                          bool finite = true) {
  world.step();
  world.core.on_commit(world.now, {std::make_shared<Floats>(update.begin(), update.end()), finite});
  std::vector<float> values(4);
  for (const auto& out : world.sent())
    if (const auto* commit = std::get_if<proto::Commit>(&out.message.body))
      REQUIRE(proto::decompress(commit->codec, out.message.payload.bytes(), values));
  return values;
}

TEST_CASE("worker: what a refused update left unsent is not sent later") {
  WorkerWorld world({.parameters = 4, .chunk = 4, .up = kOneOfFour});
  world.get_ready();
  CHECK(upload(world, {1000, 900, 800, 700}) == std::vector<float>{1000, 0, 0, 0});
  world.reply(0, 2, 3, {}, true);
  world.restart();
  CHECK(upload(world, {1, 2, 0, 0}) == std::vector<float>{0, 2, 0, 0});
  world.reply(0, 3, 3);
  world.load();
  // That of an accepted one is.
  CHECK(upload(world, {0, 0, 0.5, 0}) == std::vector<float>{1, 0, 0, 0});
}

// Joined again, and pulled.
void rejoin(WorkerWorld& world, Sequence pull, std::uint32_t restores = 0) {
  world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "away"});
  world.welcome(0);
  world.hear(kSchedulerNode, proto::Start{});
  world.sent();
  world.reply(0, pull, 7, {}, false, restores);
}

TEST_CASE("worker: an update with NaN that shards that went back refuse takes the residual along") {
  WorkerWorld world({.parameters = 4, .chunk = 4, .up = kOneOfFour});
  world.get_ready();
  upload(world, {1e30f, 9e29f, 0, 0});
  world.reply(0, 2, 3);
  world.load();
  upload(world, {std::numeric_limits<float>::quiet_NaN(), 0, 0, 0}, false);
  world.reply(0, 3, 3, {}, true, 1);
  world.restart();
  CHECK(upload(world, {1, 2, 0, 0}) == std::vector<float>{0, 2, 0, 0});
  world.reply(0, 4, 3, {}, false, 1);
  world.load();
  CHECK(upload(world, {0, 0, 0.5, 0}) == std::vector<float>{1, 0, 0, 0});  // what came after stays
}

TEST_CASE("worker: an update with NaN that is refused by itself leaves the residual") {
  WorkerWorld world({.parameters = 4, .chunk = 4, .up = kOneOfFour});
  world.get_ready();
  upload(world, {4, 3, 0, 0});
  world.reply(0, 2, 3);
  world.load();
  upload(world, {std::numeric_limits<float>::quiet_NaN(), 0, 0, 0}, false);
  world.reply(0, 3, 3, {}, true);
  world.restart();
  CHECK(upload(world, {0, 0, 1, 0}) == std::vector<float>{0, 3, 0, 0});
}

TEST_CASE("worker: who was away while the shards went back has no residual left either") {
  WorkerWorld world({.parameters = 4, .chunk = 4, .up = kOneOfFour});
  world.get_ready();
  upload(world, {1e30f, 9e29f, 0, 0});
  world.reply(0, 2, 3);
  world.load();
  rejoin(world, 3, 1);
  world.restart();
  CHECK(upload(world, {1, 2, 0, 0}) == std::vector<float>{0, 2, 0, 0});
  world.reply(0, 4, 3, {}, false, 1);
  world.load();
  rejoin(world, 5, 1);  // no restore since
  world.load();
  CHECK(upload(world, {0, 0, 0.5, 0}) == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE(
    "worker: what compression leaves after a restore is sent, also the first that it leaves") {
  WorkerWorld world({.parameters = 4, .chunk = 4, .up = kOneOfFour});
  world.join();
  world.reply(0, 1, 7, {}, false, 2);
  world.restart();
  world.sent();
  upload(world, {4, 3, 0, 0});
  world.reply(0, 2, 3, {}, false, 2);
  world.load();
  CHECK(upload(world, {0, 0, 1, 0}) == std::vector<float>{0, 3, 0, 0});
}

TEST_CASE("worker: update and residual outlive an absence, but never go into another run") {
  for (const Incarnation life : {1u, 2u}) {
    CAPTURE(life);
    WorkerWorld world({.parameters = 4, .chunk = 4, .up = kOneOfFour});
    world.get_ready();
    CHECK(upload(world, {4, 3, 0, 0}) == std::vector<float>{4, 0, 0, 0});
    world.reply(0, 2, 3);
    world.load();
    world.step();
    world.life = life;  // of a scheduler that was restarted, and of its servers
    rejoin(world, 3);
    life == 1 ? world.load() : world.restart();
    const std::vector<float> zeros(4);
    CHECK(upload(world, zeros) == (life == 1 ? std::vector<float>{0, 3, 0, 0} : zeros));
    CHECK(world.core.poll_log().has_value() == (life == 2));
    world.reply(0, 4, 3);
    world.load();  // once
  }
}

TEST_CASE("worker: what its last life left is sent if the shards have not gone back since") {
  for (const std::uint32_t restores : {1u, 2u}) {
    CAPTURE(restores);
    const auto residual = std::make_shared<Residual>(4);
    residual->bind(1);
    residual->rebase(1);
    residual->values()[2] = 5;
    WorkerWorld world({.parameters = 4, .chunk = 4, .residual = residual});
    world.join();
    CHECK(world.core.poll_log() == "sends what its last life has left of this run");
    world.reply(0, 1, 7, {}, false, restores);
    world.restart();
    CHECK(world.core.poll_log().value_or("") ==
          (restores == 1 ? "" : "drops what went unsent before a restore"));
    world.sent();
    CHECK(upload(world, {1, 1, 1, 1}) == std::vector<float>{1, 1, restores == 1 ? 6.0f : 1.0f, 1});
  }
}

TEST_CASE("worker: what its last life left is sent if it was of this run") {
  for (const Incarnation run : {1u, 2u}) {
    CAPTURE(run);
    const auto residual = std::make_shared<Residual>(4);
    residual->bind(run);
    residual->values()[2] = 5;
    WorkerWorld world({.parameters = 4, .chunk = 4, .residual = residual});
    world.get_ready();
    CHECK(world.core.poll_log() == (run == 1 ? "sends what its last life has left of this run"
                                             : "drops what another run has left unsent"));
    CHECK(upload(world, {1, 1, 1, 1}) == std::vector<float>{1, 1, run == 1 ? 6.0f : 1.0f, 1});
  }
}

TEST_CASE(
    "worker: a new process hears what earlier ones have made, and one that joins again knows") {
  WorkerWorld world;
  world.core.on_start(world.now);
  CHECK(world.core.earlier_steps() == 0);
  const auto welcome = [&](std::uint64_t steps) {
    world.hear(kSchedulerNode, proto::Welcome{.you = {proto::Role::Worker, 4},
                                              .parameters = 5,
                                              .range = {},
                                              .shards = world.shard_map(),
                                              .steps = steps});
  };
  welcome(40);
  CHECK(world.core.earlier_steps() == 40);
  world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "join first"});
  welcome(52);
  CHECK(world.core.id());
  CHECK(world.core.earlier_steps() == 40);
}

}  // namespace
}  // namespace rubato::worker
