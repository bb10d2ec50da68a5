// A worker that looks before it joins: whom it asks, when it is content, what it says of a server
// that does not answer.
#include "worker/server_check.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using proto::Role;
using tests::bodies;

WorldSetup looking() {
  WorldSetup setup = two_shards();
  setup.looks = true;
  return setup;
}

struct Looking : WorkerWorld {
  Looking() : WorkerWorld(looking()) { core.on_start(now); }

  void answer_short(std::uint32_t shard) {
    hear(server_node(shard), proto::Heartbeat{.echo = now, .clock = now});
    core.on_wakeup(now);
  }
  void answer(std::uint32_t shard) {
    answer_short(shard);
    answer_short(shard);  // as a server of 0.2.0 answers a long question
  }
  // The sizes of the questions to a shard since the last call.
  std::vector<std::uint32_t> fills(std::uint32_t shard) {
    std::vector<std::uint32_t> all;
    for (const auto& beat : bodies<proto::Heartbeat>(sent(), server_node(shard)))
      all.push_back(beat.fill);
    return all;
  }
  std::vector<proto::Hello> hellos() { return bodies<proto::Hello>(sent(), kSchedulerNode); }
};

TEST_CASE("server check: it asks the scheduler, then each server, and joins when all answered") {
  Looking world;
  auto hellos = world.hellos();
  REQUIRE(hellos.size() == 1);
  CHECK(hellos[0].looks);
  CHECK(hellos[0].name == "edge-0");
  CHECK(world.core.silent_servers(world.now).empty());
  world.show_servers();
  CHECK_FALSE(world.core.id().has_value());  // it is welcome to look
  CHECK(world.core.shards() == world.shard_map());
  auto said = world.sent();
  CHECK(said.size() == 2);
  for (const auto& out : said) CHECK(out.message.sent == world.now);  // to be answered
  world.answer(0);
  using Silent = std::vector<std::pair<std::uint32_t, WorkerCore::Missed>>;
  CHECK(world.core.silent_servers(world.now) == Silent{{1, WorkerCore::Missed::Joining}});
  world.sent();
  world.pass(kSecond);
  said = world.sent();
  CHECK(bodies<proto::Heartbeat>(said, server_node(0)).empty());
  CHECK(bodies<proto::Heartbeat>(said, server_node(1)).size() == 1);
  world.answer(1);
  hellos = world.hellos();
  REQUIRE(hellos.size() == 1);
  CHECK_FALSE(hellos[0].looks);
}

TEST_CASE("server check: who answers what is short and not what is long loses large packets") {
  using Fills = std::vector<std::uint32_t>;
  using Missed = WorkerCore::Missed;
  using Silent = std::vector<std::pair<std::uint32_t, Missed>>;
  Looking world;
  world.show_servers();
  CHECK(world.fills(0) == Fills{0});
  world.answer(1);
  world.sent();
  world.answer_short(0);
  CHECK(world.fills(0) == Fills{proto::kFillMax});  // at once
  CHECK(world.core.silent_servers(world.now).empty());
  for (int second = 1; second < 10; ++second) {
    world.pass(kSecond);
    // A connection may have taken it along; on one that holds, each waits behind what is lost.
    CHECK(world.fills(0) == (second % 3 == 0 ? Fills{proto::kFillMax} : Fills{}));
  }
  CHECK(world.core.silent_servers(world.now).empty());  // the link may be slow
  world.pass(kSecond);
  CHECK(world.fills(0).empty());
  CHECK(world.core.silent_servers(world.now) == Silent{{0, Missed::Large}});
  CHECK(world.hellos().empty());
  world.answer_short(0);
  CHECK(world.core.silent_servers(world.now).empty());
  const auto hellos = world.hellos();
  REQUIRE(hellos.size() == 1);
  CHECK_FALSE(hellos[0].looks);  // it joins
}

TEST_CASE("server check: what an answer takes says when a server is asked for the first time") {
  Looking world;
  world.show_servers();
  world.sent();
  const Instant asked = world.now;
  world.pass(Duration::from_ms(500));
  for (const std::uint32_t shard : {0, 1})
    for (const Instant question : {asked, world.now})
      world.hear(server_node(shard), proto::Heartbeat{.echo = question, .clock = world.now});
  world.welcome();
  world.hear(kSchedulerNode, proto::Start{});
  const Instant pulled = world.now;
  world.sent();
  while (bodies<proto::Probe>(world.sent(), server_node(0)).empty()) {
    REQUIRE(world.now - pulled < kSecond * 15);
    world.pass(Duration::from_ms(100));
  }
  CHECK(world.now - pulled == Duration::from_ms(1500));  // three times as long
}

TEST_CASE("server check: who joins again looks again, and late replies are no answer") {
  WorkerWorld world(looking());
  const auto look = [&] {
    auto hellos = bodies<proto::Hello>(world.sent(), kSchedulerNode);
    REQUIRE(hellos.size() == 1);
    CHECK(hellos[0].looks);
    world.show_servers();
    world.reply(0, 2);
    world.hear(server_node(1), proto::Refusal{proto::RefusalCode::NotMember, "late"});
    world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "late"});
    CHECK(world.core.silent_servers(world.now).size() == 2);
    for (const std::uint32_t shard : {0u, 1u, 0u, 1u})  // the short question and the long one
      world.hear(server_node(shard), proto::Heartbeat{.echo = world.now, .clock = world.now});
    world.core.on_wakeup(world.now);
    hellos = bodies<proto::Hello>(world.sent(), kSchedulerNode);
    REQUIRE(hellos.size() == 1);
    CHECK_FALSE(hellos[0].looks);
    world.welcome();
    world.hear(kSchedulerNode, proto::Start{});
    world.sent();
  };
  world.core.on_start(world.now);
  look();
  world.replies(1);
  world.load();
  world.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::NotMember, "lost"});
  look();
  world.replies(2);
  world.load();
  world.hear(kSchedulerNode, proto::Notice{"server 1 is back", true});
  world.hear(kSchedulerNode, sync::Directive{.commit_rate = 3, .local_rate = 0.25});
  CHECK(world.core.next_step().rate == 0.25);  // orders are heard meanwhile
  look();
}

// The scheduler answers each Hello that looks. The servers may be quicker than its last answer.
TEST_CASE("server check: a late answer to a look is no welcome") {
  Looking world;
  world.show_servers();
  world.pass(kSecond);  // it looks again
  for (const std::uint32_t shard : {0u, 1u}) world.answer(shard);
  world.show_servers();
  CHECK_FALSE(world.core.id().has_value());
  world.welcome(4);
  CHECK(world.core.id() == proto::NodeId{Role::Worker, 4});
}

TEST_CASE("server check: a run that ends meanwhile ends the worker") {
  Looking world;
  world.hear(kSchedulerNode, proto::Stop{"target reached"});
  CHECK(world.core.stopped() == "target reached");
}

TEST_CASE("server check: the scheduler hears of the trouble, and there is an end") {
  Looking world;
  world.show_servers();
  world.hear(kSchedulerNode, proto::Notice{"waiting for pi-1 (1 of 2 workers joined)"});
  CHECK(world.core.poll_log() == "waiting for pi-1 (1 of 2 workers joined)");
  world.sent();
  world.core.on_trouble("cannot reach server 1");
  const auto hellos = world.hellos();
  REQUIRE(hellos.size() == 1);
  CHECK(hellos[0].trouble == "cannot reach server 1");
  for (int second = 0; second < 601 && !world.core.failure(); ++second) {
    world.hear(kSchedulerNode, proto::Heartbeat{});
    world.pass(kSecond);
  }
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Io);  // exit code 1
  CHECK(world.core.failure()->message == "gives up after 600 s: cannot reach server 1");
}

TEST_CASE("server check: a refusal and a silent scheduler end it") {
  Looking refused;
  refused.hear(kSchedulerNode, proto::Refusal{proto::RefusalCode::OtherSettings, "seed = 2"});
  REQUIRE(refused.core.failure().has_value());
  CHECK(refused.core.failure()->message == "scheduler refused this worker: seed = 2");
  Looking alone;
  for (int second = 0; second < 61; ++second) alone.pass(kSecond);
  REQUIRE(alone.core.failure().has_value());
  CHECK(alone.core.failure()->code == ErrorCode::Timeout);
}

}  // namespace
}  // namespace rubato::worker
