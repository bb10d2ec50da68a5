// The initial values of a model of the user's own come from one worker: when it is asked for them,
// how they travel, and what happens if the membership ends in between.
#include <doctest/doctest.h>

#include <limits>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker::seed_tests {
namespace {

using tests::bodies;

WorldSetup seeds(std::uint32_t shards = 1) {
  WorldSetup setup;
  setup.parameters = 5 * shards;
  setup.shards = shards;
  setup.seeds = true;
  return setup;
}

void start(WorkerWorld& world, std::uint32_t seeding = 0) {
  world.hear(kSchedulerNode, proto::Start{seeding});
}

// The initial values: 100, 101, ...
void seed(WorkerWorld& world) {
  REQUIRE(world.core.next_action() == Action::Seed);
  auto values = std::make_shared<Floats>(world.shard_map().parameters());
  for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = 100 + static_cast<float>(i);
  world.core.on_seed(world.now, {values});
}

// Asked under this number.
void ask(WorkerWorld& world, std::uint32_t seeding = 1) {
  world.core.on_start(world.now);
  world.welcome();
  start(world, seeding);
}

TEST_CASE("seed: all parameters travel as they are, then the worker joins like any other") {
  WorldSetup setup = seeds(2);
  setup.up = {.codec = proto::PayloadCodec::Int8};
  WorkerWorld world(setup);
  ask(world);
  CHECK(bodies<proto::Pull>(world.sent(), server_node(0)).empty());
  seed(world);
  CHECK(world.core.next_action() == Action::Wait);
  const auto said = world.sent();
  std::size_t chunks = 0;
  for (const auto& out : said) {
    const auto* commit = std::get_if<proto::Commit>(&out.message.body);
    if (!commit) continue;
    ++chunks;
    CHECK(commit->seeding == 1);
    CHECK(commit->sequence == 1);
    CHECK(commit->total == 5);
    CHECK_FALSE(commit->elastic);
    CHECK(commit->codec == proto::PayloadCodec::F32);
    const float first =
        100 + 5 * static_cast<float>(out.to.index) + static_cast<float>(commit->offset);
    CHECK(tests::values_of(out.message.payload)[0] == first);
  }
  CHECK(chunks == 6);  // 2 + 2 + 1 of each shard
  world.reply(0, 1, 100);
  CHECK(world.core.next_action() == Action::Wait);
  world.reply(1, 1, 100);
  CHECK(world.core.next_action() == Action::Wait);  // for the others
  CHECK(world.rule.heard.empty());                  // it was no commit
  CHECK(world.core.progress().commits == 0);
  world.sent();

  start(world);
  const auto pulls = world.sent();
  for (std::uint32_t shard = 0; shard < 2; ++shard)
    CHECK(bodies<proto::Pull>(pulls, server_node(shard)).at(0).sequence == 2);
  world.replies(2, 7);
  world.load();
  CHECK(world.core.parameters()[9] == 7);
  world.step();
  world.commit();
  const auto commits = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE_FALSE(commits.empty());
  CHECK(commits[0].seeding == 0);
  CHECK(commits[0].sequence == 3);
  CHECK(commits[0].codec == proto::PayloadCodec::Int8);
}

TEST_CASE("seed: a worker that is asked several times sends its values once") {
  WorkerWorld world(seeds());
  ask(world);
  start(world, 1);  // the Hello was repeated
  seed(world);
  world.sent();
  start(world, 1);
  CHECK(world.core.next_action() == Action::Wait);
  world.reply(0, 1, 100);
  start(world, 1);  // the scheduler has not heard the server yet
  CHECK(world.core.next_action() == Action::Wait);
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).empty());
  start(world);
  CHECK(bodies<proto::Pull>(world.sent(), server_node(0)).at(0).sequence == 2);
}

TEST_CASE("seed: a Start that comes before the servers' answer is obeyed after it") {
  WorkerWorld world(seeds());
  ask(world);
  seed(world);
  start(world);
  CHECK(bodies<proto::Pull>(world.sent(), server_node(0)).empty());
  world.reply(0, 1, 100);
  CHECK(bodies<proto::Pull>(world.sent(), server_node(0)).at(0).sequence == 2);
  world.replies(2, 100);
  world.load();
  world.step();
}

TEST_CASE("seed: a membership that ends in between is joined again, and asked again") {
  for (const bool sending : {false, true}) {
    CAPTURE(sending);
    for (const bool notice : {false, true}) {
      CAPTURE(notice);
      WorkerWorld world(seeds());
      ask(world);
      if (sending) seed(world);
      world.sent();
      if (notice) {
        world.hear(kSchedulerNode, proto::Notice{"server 0 is back", true});
      } else {
        world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "who?"});
      }
      CHECK(world.core.next_action() == Action::Wait);
      CHECK(bodies<proto::Hello>(world.sent(), kSchedulerNode).at(0).again == notice);
      start(world, 1);         // of its earlier life
      world.reply(0, 1, 100);  // likewise
      CHECK(world.core.next_action() == Action::Wait);
      world.welcome();
      start(world, 2);
      seed(world);
      const auto commits = bodies<proto::Commit>(world.sent(), server_node(0));
      REQUIRE_FALSE(commits.empty());
      CHECK(commits[0].seeding == 2);
      const Sequence sequence = commits[0].sequence;
      CHECK(sequence == (sending ? 2 : 1));
      world.reply(0, sequence, 100);
      start(world);
      world.replies(sequence + 1, 100);
      world.load();
      world.step();
    }
  }
}

TEST_CASE("seed: a worker that was lost while its values were on their way joins again") {
  WorkerWorld world(seeds());
  ask(world);
  seed(world);
  world.sent();
  // It was silent, and says Hello again: to the scheduler it is another member.
  world.welcome(9);
  CHECK(world.core.next_action() == Action::Wait);
  const auto hello = world.sent();
  REQUIRE(bodies<proto::Hello>(hello, kSchedulerNode).size() == 1);
  CHECK(hello[0].message.incarnation == 501);
  world.welcome(10);
  start(world, 2);
  CHECK(world.core.next_action() == Action::Seed);
}

TEST_CASE("seed: another worker was named meanwhile, and this one just joins") {
  WorkerWorld world(seeds());
  ask(world);
  seed(world);
  world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "lost"});
  world.sent();
  world.welcome();
  start(world);
  const auto pulls = bodies<proto::Pull>(world.sent(), server_node(0));
  REQUIRE(pulls.size() == 1);
  world.replies(pulls[0].sequence, 3);
  world.load();
  world.step();
}

TEST_CASE("seed: another run counts from 1 again, and is answered") {
  WorkerWorld world(seeds());
  ask(world);
  seed(world);
  world.reply(0, 1, 100);
  world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "who?"});
  world.life = 2;
  world.welcome();
  start(world, 1);
  CHECK(world.core.next_action() == Action::Seed);
}

TEST_CASE("seed: values that the servers refuse end the worker with a line") {
  WorkerWorld world(seeds());
  ask(world);
  seed(world);
  world.reply(0, 1, 0, {}, true);
  CHECK(world.core.next_action() == Action::Fail);
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Refused);
  CHECK(world.core.failure()->message ==
        "the servers refuse the initial values of this worker: one is not finite, or larger than "
        "1e15");
}

TEST_CASE("seed: values that are not finite are sent, for the servers judge") {
  WorkerWorld world(seeds());
  ask(world);
  auto values = std::make_shared<Floats>(5, std::numeric_limits<float>::quiet_NaN());
  world.core.on_seed(world.now, {values, false});
  const auto commits = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE(commits.size() == 3);
  CHECK(commits[0].discard == false);
}

TEST_CASE("seed: a worker of a built-in model is never asked") {
  WorkerWorld world;
  ask(world);
  CHECK(world.core.next_action() == Action::Wait);
  start(world);
  CHECK(bodies<proto::Pull>(world.sent(), server_node(0)).size() == 1);
}

TEST_CASE("seed: an elastic worker sends its values like any other, and commits as ever") {
  WorldSetup setup = seeds();
  setup.elastic = true;
  WorkerWorld world(setup);
  ask(world);
  seed(world);
  const auto seeding = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE_FALSE(seeding.empty());
  CHECK_FALSE(seeding[0].elastic);
  world.reply(0, 1, 100);
  start(world);
  world.replies(2, 8);
  world.load();
  CHECK(world.core.parameters()[0] == 8);
  world.step();
  world.commit();
  const auto commits = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE_FALSE(commits.empty());
  CHECK(commits[0].elastic);
}

TEST_CASE("seed: the user may end it at each stage") {
  for (const bool sending : {false, true}) {
    CAPTURE(sending);
    WorkerWorld world(seeds());
    ask(world);
    if (sending) seed(world);
    world.sent();
    world.core.on_interrupt(world.now);
    CHECK(world.core.next_action() == Action::Finish);
    CHECK(bodies<proto::Leave>(world.sent(), kSchedulerNode).size() == 1);
  }
}

}  // namespace
}  // namespace rubato::worker::seed_tests
