// A worker that meets no fault: join, pull, train, commit, reply, and the books it keeps.
#include "worker/worker_core.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

TEST_CASE("worker: Hello until Start, then a pull from every shard, a load, and training") {
  WorldSetup setup;
  setup.shards = 2;
  WorkerWorld world(setup);
  world.core.on_start(world.now);
  const auto hello = bodies<proto::Hello>(world.sent(), kSchedulerNode);
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].name == "edge-0");
  CHECK(hello[0].parameters == 5);
  CHECK(world.core.next_action() == Action::Wait);

  world.welcome();
  CHECK(world.core.id() == proto::NodeId{proto::Role::Worker, 4});
  CHECK(world.core.shards() == world.shard_map());
  CHECK(world.core.next_action() == Action::Wait);
  CHECK(world.core.poll_wakeup() == world.now + kSecond);
  world.pass(kSecond);  // still no Start: the scheduler may have missed us
  CHECK(bodies<proto::Hello>(world.sent(), kSchedulerNode).size() == 1);

  world.hear(kSchedulerNode, proto::Start{});
  const auto pulls = world.sent();
  REQUIRE(pulls.size() == 2);
  CHECK(bodies<proto::Pull>(pulls, server_node(0)).at(0).sequence == 1);
  CHECK(bodies<proto::Pull>(pulls, server_node(1)).at(0).sequence == 1);
  CHECK(pulls[0].message.sender == proto::NodeId{proto::Role::Worker, 4});
  CHECK(pulls[0].message.incarnation == 500);
  CHECK(world.core.next_action() == Action::Wait);

  world.reply(1, 1, 7);
  CHECK(world.core.next_action() == Action::Wait);
  world.reply(0, 1, 6);
  CHECK(world.core.next_action() == Action::Load);
  const auto loaded = world.core.parameters();
  CHECK(std::vector<float>(loaded.begin(), loaded.end()) == std::vector<float>{6, 6, 6, 7, 7});
  CHECK(world.rule.heard.empty());
  world.load();
  CHECK(world.rule.heard == "start");
  CHECK(world.core.next_action() == Action::Train);
}

TEST_CASE("worker: a repeated Welcome or Start changes nothing") {
  WorkerWorld world;
  world.get_ready();
  world.welcome(9);
  world.hear(kSchedulerNode, proto::Start{});
  CHECK(world.core.id() == proto::NodeId{proto::Role::Worker, 4});
  CHECK(world.core.next_action() == Action::Train);
  CHECK(world.sent().empty());
}

TEST_CASE("worker: trains until its rule says commit, and waits for the reply") {
  WorldSetup setup;
  setup.every = 3;
  WorkerWorld world(setup);
  world.get_ready();
  for (int i = 0; i < 3; ++i) world.step();
  world.commit();
  CHECK(world.core.next_action() == Action::Wait);
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).at(0).steps == 3);
  world.now = world.now + Duration::from_ms(200);
  world.replies(2, 9);
  world.load();
  CHECK(world.rule.heard == "sent, reply 0.2");
  CHECK(world.core.parameters()[0] == 9);
  for (int i = 0; i < 3; ++i) world.step();
  CHECK(world.core.next_action() == Action::Commit);
}

TEST_CASE("worker: a commit's chunks carry every element exactly once, whatever the sizes") {
  for (const std::uint64_t parameters : {1u, 2u, 7u, 64u, 101u})
    for (const std::uint32_t shards : {1u, 2u, 3u, 5u, 8u})
      for (const std::uint64_t chunk : {1u, 3u, 8u, 1000u}) {
        CAPTURE(parameters);
        CAPTURE(shards);
        CAPTURE(chunk);
        WorkerWorld world({.parameters = parameters, .shards = shards, .chunk = chunk});
        world.get_ready();
        world.step();
        world.commit();
        std::vector<int> seen(parameters);
        while (const auto next = world.core.poll_send()) {
          const auto& out = *next;
          const auto& commit = std::get<proto::Commit>(out.message.body);
          world.hear(out.to, proto::ProbeReply{.sequence = commit.sequence, .missing_offsets = {}});
          const auto range = world.shard_map().shards[out.to.index].range;
          const auto values = tests::values_of(out.message.payload);
          CHECK(commit.total == range.count());
          CHECK(commit.count <= chunk);
          REQUIRE(commit.count == values.size());
          for (std::uint64_t i = 0; i < commit.count; ++i) {
            const std::uint64_t element = range.begin + commit.offset + i;
            REQUIRE(element < range.end);
            CHECK(values[i] == static_cast<float>(element));
            ++seen[element];
          }
        }
        CHECK(seen == std::vector<int>(parameters, 1));
      }
}

TEST_CASE("worker: an update that is not finite tells every shard to discard its slice") {
  for (const bool finite : {true, false}) {
    CAPTURE(finite);
    WorkerWorld world({.parameters = 6, .shards = 3});
    world.get_ready();
    world.step();
    world.core.on_commit(world.now, {std::make_shared<const Floats>(6), finite});
    const auto sent = world.sent();
    REQUIRE(sent.size() == 3);
    for (const auto& out : sent)
      CHECK(std::get<proto::Commit>(out.message.body).discard == !finite);
  }
}

// --- waiting and communicating -------------------------------------------------------------------

TEST_CASE("worker: held by the gate is waiting, the rest of the round trip is communication") {
  WorkerWorld world;
  world.get_ready();
  world.step();
  world.commit();
  world.now = world.now + kSecond * 3;
  world.reply(0, 2, 0, kSecond * 2.5);
  CHECK(world.core.progress().wait == kSecond * 2.5);
  CHECK(world.core.progress().communicate == kSecond * 0.5);
  CHECK(world.core.progress().overhead == kSecond * 0.25);  // EWMA with 0.5 from 0
  CHECK(world.rule.heard == "sent, reply 0.5");

  world.load();
  world.step();
  world.commit();
  world.now = world.now + kSecond;
  world.reply(0, 3);
  CHECK(world.core.progress().wait == kSecond * 2.5);
  CHECK(world.core.progress().communicate == kSecond * 1.5);
  CHECK(world.core.progress().overhead == kSecond * 0.625);
}

TEST_CASE("worker: of several shards the one that answers last tells how long it was held") {
  WorldSetup setup;
  setup.shards = 2;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  world.now = world.now + kSecond;
  SUBCASE("its gate was the slow part") {
    world.reply(0, 2, 0, Duration{});
    world.now = world.now + kSecond;
    world.reply(1, 2, 0, kSecond * 1.5);
    CHECK(world.core.progress().wait == kSecond * 1.5);
    CHECK(world.core.progress().communicate == kSecond * 0.5);
  }
  SUBCASE("its link was the slow part") {
    world.reply(1, 2, 0, kSecond * 0.75);
    world.now = world.now + kSecond;
    world.reply(0, 2, 0, kSecond * 0.5);
    CHECK(world.core.progress().wait == kSecond * 0.5);
    CHECK(world.core.progress().communicate == kSecond * 1.5);
  }
}

TEST_CASE("worker: no server can claim to have held a commit longer than it took") {
  WorkerWorld world;
  world.get_ready();
  world.step();
  world.commit();
  world.now = world.now + kSecond;
  world.reply(0, 2, 0, kSecond * 9);
  CHECK(world.core.progress().wait == kSecond);
  CHECK(world.core.progress().communicate == Duration{});
  CHECK(world.rule.heard == "sent, reply 0");
}

TEST_CASE("worker: the first pull is communication") {
  WorkerWorld world;
  world.join();
  world.now = world.now + kSecond * 2;
  world.replies(1);
  CHECK(world.core.progress().communicate == kSecond * 2);
}

// --- overlap -------------------------------------------------------------------------------------

TEST_CASE("overlap: trains on while a commit is under way, and is never blocked") {
  WorldSetup setup;
  setup.overlap = sync::Overlap::Always;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).at(0).steps == 1);
  for (int i = 0; i < 4; ++i) world.step();  // the rule says commit after each: one at a time
  CHECK(world.sent().empty());
  world.replies(2);
  world.load();
  CHECK(world.core.progress().wait == Duration{});
  CHECK(world.core.progress().communicate == Duration{});
  CHECK(world.core.progress().overhead == Duration::from_ms(200));  // half of 0.4 s
  world.sent();
  world.commit();  // what the rule asked for is not lost
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).at(0).steps == 4);
}

TEST_CASE("overlap: steps beside a copy belong to the next commit, or stay on top of the reply") {
  WorldSetup setup;
  setup.overlap = sync::Overlap::Always;
  setup.every = 3;
  WorkerWorld world(setup);
  world.get_ready();
  for (int i = 0; i < 3; ++i) world.step();
  REQUIRE(world.core.next_action() == Action::Commit);
  CHECK(world.core.may_take_beside_steps());
  world.core.on_taking(world.now);
  CHECK(world.core.next_action() == Action::Train);
  for (int i = 0; i < 2; ++i) world.step();
  CHECK(world.sent().empty());
  world.commit_taken();
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).at(0).steps == 3);
  CHECK(world.core.next_action() == Action::Train);
  world.replies(2);
  REQUIRE(world.core.next_action() == Action::Load);
  CHECK(world.core.may_stage_beside_steps());
  world.core.on_staging();
  CHECK(world.core.next_action() == Action::Train);
  for (int i = 0; i < 2; ++i) world.step();
  CHECK(world.core.next_action() == Action::Train);
  world.core.on_staged();
  world.load();
  CHECK(world.core.progress().wait == Duration{});
  CHECK(world.core.progress().communicate == Duration{});
  world.sent();
  REQUIRE(world.core.next_action() == Action::Commit);  // what the rule asked for is not lost
  world.commit();
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).at(0).steps == 4);
  CHECK(world.core.progress().steps == 7);
}

TEST_CASE("no copy is made beside steps where the worker waits for the reply, or is elastic") {
  WorkerWorld waits(WorldSetup{});
  waits.get_ready();
  waits.step();
  CHECK_FALSE(waits.core.may_take_beside_steps());
  waits.commit();
  waits.replies(2);
  CHECK_FALSE(waits.core.may_stage_beside_steps());
  WorldSetup setup;
  setup.overlap = sync::Overlap::Always;
  setup.elastic = true;
  WorkerWorld elastic(setup);
  elastic.get_ready();
  elastic.step();
  CHECK_FALSE(elastic.core.may_take_beside_steps());
}

TEST_CASE("overlap unless quick: a reply that takes less than a quarter of a step is waited for") {
  WorldSetup setup;
  setup.overlap = sync::Overlap::UnlessQuick;
  WorkerWorld world(setup);
  world.get_ready();
  const auto commit = [&](Duration round_trip) {
    world.step(1, 1, kSecond);
    world.commit();
    world.sent();
    const bool waits = world.core.next_action() == Action::Wait;
    world.now = world.now + round_trip;
    world.replies(static_cast<Sequence>(world.core.progress().commits + 2));
    world.load();
    return waits;
  };
  CHECK(commit(kSecond));              // nothing is known yet; O is 0.5 s now
  CHECK_FALSE(commit(kSecond * 0.2));  // 0.35 s
  CHECK_FALSE(commit(Duration{}));     // 0.175 s
  const Duration communicated = world.core.progress().communicate;
  CHECK(commit(kSecond * 0.1));
  CHECK(world.core.progress().communicate == communicated + kSecond * 0.1);
}

// --- reports -------------------------------------------------------------------------------------

TEST_CASE("worker: reports totals after every reply, and the mean loss since the last report") {
  WorldSetup setup;
  setup.every = 2;
  WorkerWorld world(setup);
  world.get_ready();
  world.core.on_bytes(1000, 0);
  world.core.on_bytes(50, 700);
  world.step(8.0, 4);
  world.step(1.0, 2);
  world.commit();
  world.sent();
  world.replies(2);
  auto reports = bodies<proto::Progress>(world.sent(), kSchedulerNode);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].steps == 2);
  CHECK(reports[0].commits == 1);
  CHECK(reports[0].loss == 1.5);  // 9 over 6 samples
  CHECK(reports[0].loss_samples == 6);
  CHECK(reports[0].compute == Duration::from_ms(200));
  CHECK(reports[0].bytes_up == 1050);
  CHECK(reports[0].bytes_down == 700);

  world.load();
  world.step(3.0, 2);
  world.pass(kSecond * 2);  // a heartbeat between two replies
  reports = bodies<proto::Progress>(world.sent(), kSchedulerNode);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].steps == 3);
  CHECK(reports[0].loss == 1.5);
  CHECK(reports[0].loss_samples == 2);
  world.pass(kSecond * 2);
  reports = bodies<proto::Progress>(world.sent(), kSchedulerNode);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].loss_samples == 0);
}

TEST_CASE("worker: losses that a device tells later count for their samples, and steps at once") {
  WorldSetup setup;
  setup.every = 3;
  WorkerWorld world(setup);
  world.get_ready();
  world.step(0, 0);
  world.step(0, 0);
  world.step(9.0, 6);
  world.commit();
  world.sent();
  world.replies(2);
  const auto reports = bodies<proto::Progress>(world.sent(), kSchedulerNode);
  REQUIRE(reports.size() == 1);
  CHECK(reports[0].steps == 3);
  CHECK(reports[0].loss == 1.5);
  CHECK(reports[0].loss_samples == 6);
}

TEST_CASE("worker: the step time is smoothed, from the first step on") {
  WorldSetup setup;
  setup.every = 9;
  WorkerWorld world(setup);
  world.get_ready();
  world.step(1, 1, kSecond);
  CHECK(world.core.progress().step_time == kSecond);
  world.step(1, 1, kSecond * 2);
  CHECK(world.core.progress().step_time == kSecond * 1.2);
}

TEST_CASE("worker: hands directives to its rule, and no rate that means nothing") {
  WorkerWorld world;
  world.get_ready();
  for (const double rate : {4.0, 0.5, 0.0, -3.0, std::numeric_limits<double>::quiet_NaN(), 1.0})
    world.hear(kSchedulerNode, proto::Directive{rate});
  CHECK(world.rule.heard == "rate 4, rate 1");
}

TEST_CASE("worker: counts commits that were refused, and goes on from the server's parameters") {
  WorkerWorld world;
  world.get_ready();
  world.step();
  world.commit();
  world.reply(0, 2, 3, Duration{}, true);
  world.restart();
  CHECK(world.core.refused_commits() == 1);
  CHECK(world.core.parameters()[0] == 3);
  CHECK(world.core.next_action() == Action::Train);
}

// --- the end -------------------------------------------------------------------------------------

TEST_CASE("worker: Stop brings its last report and a farewell, then nothing more") {
  WorldSetup setup;
  setup.every = 9;
  WorkerWorld world(setup);
  world.get_ready();
  world.step(5, 2);
  world.hear(kSchedulerNode, proto::Stop{"target reached"});
  CHECK(world.core.next_action() == Action::Finish);
  CHECK(world.core.stopped() == "target reached");
  const auto last = world.sent();
  REQUIRE(last.size() == 2);
  CHECK(bodies<proto::Progress>(last, kSchedulerNode).at(0).steps == 1);
  CHECK(bodies<proto::Progress>(last, kSchedulerNode).at(0).loss_samples == 2);
  CHECK(std::get<proto::Leave>(last[1].message.body).reason == "target reached");

  world.pass(kSecond * 60);
  world.hear(kSchedulerNode, proto::Stop{"again"});
  CHECK(world.sent().empty());
  CHECK_FALSE(world.core.poll_wakeup().has_value());
}

TEST_CASE("worker: an interrupted one says farewell too, one that never joined need not") {
  WorkerWorld joined;
  joined.get_ready();
  joined.core.on_interrupt(joined.now);
  CHECK(joined.core.next_action() == Action::Finish);
  CHECK(bodies<proto::Leave>(joined.sent(), kSchedulerNode).at(0).reason == "interrupted");

  WorkerWorld outside;
  outside.core.on_start(outside.now);
  outside.sent();
  outside.core.on_interrupt(outside.now);
  CHECK(outside.core.next_action() == Action::Finish);
  CHECK(outside.sent().empty());
}

}  // namespace
}  // namespace rubato::worker
