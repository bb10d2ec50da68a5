// A shard went back to a snapshot: the worker joins again as a new incarnation, and keeps its
// number, its totals and what the tuner told it. A run that could not go on is a failure.
#include <doctest/doctest.h>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using tests::bodies;

void notice(WorkerWorld& world, bool rejoin) {
  world.hear(kSchedulerNode, proto::Notice{"server 1 'b' is back", rejoin});
}

TEST_CASE("pull again: it says Hello as a new life of the same member, and pulls everything") {
  Committed world;
  world.hear(kSchedulerNode, sync::Directive{.commit_rate = 3, .weight = 0.5, .local_rate = 0.25});
  world.reply(0, 2);
  const Incarnation life = world.core.progress_message().incarnation;
  world.sent();
  notice(world, true);
  CHECK(world.core.poll_log() == "server 1 'b' is back");
  CHECK(world.core.next_action() == Action::Wait);
  auto said = world.sent();
  const auto hello = bodies<proto::Hello>(said, kSchedulerNode);
  REQUIRE(hello.size() == 1);
  CHECK(hello[0].again);
  CHECK(said[0].message.incarnation == life + 1);
  // What still arrives of the commit, or comes twice, means nothing.
  world.reply(1, 2);
  notice(world, true);
  CHECK(world.sent().empty());

  world.welcome();
  world.hear(kSchedulerNode, proto::Start{});
  said = world.sent();
  for (std::uint32_t shard = 0; shard < 2; ++shard)
    CHECK(bodies<proto::Pull>(said, server_node(shard)).at(0).sequence == 3);
  world.replies(3, 7);
  world.load();
  CHECK(world.core.progress().steps == 1);
  CHECK(world.core.progress().commits == 0);  // the one under way was given up
  CHECK(world.core.next_step().rate == 0.25);
  world.step();
  CHECK(world.core.progress().steps == 2);
  world.commit();
  const auto chunks = bodies<proto::Commit>(world.sent(), server_node(0));
  REQUIRE_FALSE(chunks.empty());
  CHECK(chunks[0].weight == 0.5 / 0.25);
}

TEST_CASE("pull again: a scheduler that gives it another number has lost its totals") {
  WorkerWorld world;
  world.get_ready();
  world.step();
  notice(world, true);
  world.welcome(9);
  CHECK(world.core.progress().steps == 0);
}

TEST_CASE("pull again: a run that ends meanwhile gets a farewell of the next life") {
  WorkerWorld world;
  world.get_ready();
  const auto before = world.core.progress_message();
  notice(world, true);
  world.sent();
  world.hear(kSchedulerNode, proto::Stop{"enough"});
  CHECK(world.core.next_action() == Action::Finish);
  const auto last = world.sent();
  REQUIRE(last.size() == 1);
  CHECK(bodies<proto::Leave>(last, kSchedulerNode).at(0).reason == "enough");
  CHECK(last[0].message.sender == before.sender);
  CHECK(last[0].message.incarnation == before.incarnation + 1);
}

TEST_CASE("pull again: a notice alone is a line of the log") {
  WorkerWorld world;
  world.get_ready();
  notice(world, false);
  CHECK(world.core.poll_log() == "server 1 'b' is back");
  CHECK(world.sent().empty());
  CHECK(world.core.next_action() == Action::Train);
}

TEST_CASE("a run that could not go on is a failure, after a farewell") {
  WorkerWorld world;
  world.get_ready();
  world.hear(kSchedulerNode, proto::Stop{"server 1 is lost", true});
  CHECK(world.core.next_action() == Action::Finish);
  REQUIRE(world.core.failure());
  CHECK(world.core.failure()->message ==
        "the run ended before its stop criterion held: server 1 is lost");
  CHECK(bodies<proto::Leave>(world.sent(), kSchedulerNode).size() == 1);
}

}  // namespace
}  // namespace rubato::worker
