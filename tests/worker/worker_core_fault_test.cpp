// A worker among refusing and broken peers: it joins again, or ends with a line that says why.
#include <doctest/doctest.h>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using proto::RefusalCode;
using tests::bodies;

TEST_CASE("rejoin: a worker that is no member any more joins again as a new incarnation") {
  Committed world;
  const proto::Refusal not_member{RefusalCode::NotMember, "join first"};
  proto::NodeId from = kSchedulerNode;
  SUBCASE("told by the scheduler") {}
  SUBCASE("told by a server") {
    from = server_node(1);
  }
  world.hear(from, not_member);
  const auto hello = world.sent();
  REQUIRE(hello.size() == 1);
  CHECK(std::holds_alternative<proto::Hello>(hello[0].message.body));
  CHECK(hello[0].message.incarnation == 501);
  CHECK(world.core.next_action() == Action::Wait);
  CHECK_FALSE(world.core.id().has_value());

  // Each chunk that was under way is refused too, before and after the new Welcome.
  world.hear(server_node(0), not_member);
  world.hear(kSchedulerNode, not_member);
  world.welcome(7);
  world.hear(server_node(0), not_member);
  world.hear(kSchedulerNode, proto::Start{});
  world.hear(server_node(1), not_member);
  REQUIRE_FALSE(world.core.failure().has_value());
  CHECK(world.core.id() == proto::NodeId{proto::Role::Worker, 7});

  const auto pulls = bodies<proto::Pull>(world.sent(), server_node(0));
  REQUIRE(pulls.size() == 1);
  CHECK(pulls[0].sequence == 3);
  world.reply(0, 2);  // the answer to the last life's commit is of no use
  CHECK(world.core.next_action() == Action::Wait);
  world.replies(3);
  world.load();
  world.step();
  world.commit();
  const auto commit = world.sent().back().message;
  CHECK(commit.incarnation == 501);
  CHECK(commit.sender == proto::NodeId{proto::Role::Worker, 7});
  CHECK(std::get<proto::Commit>(commit.body).steps == 1);
  CHECK(world.core.progress().steps == 1);  // totals since joining
}

TEST_CASE(
    "rejoin: the update that was not yet committed is kept, and so is the count of its steps") {
  WorldSetup setup;
  setup.every = 3;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.step();
  world.hear(kSchedulerNode, proto::Refusal{RefusalCode::NotMember, "join first"});
  world.welcome(7);
  world.hear(kSchedulerNode, proto::Start{});
  world.replies(2);
  world.load();
  world.step();
  world.sent();
  world.commit();
  CHECK(bodies<proto::Commit>(world.sent(), server_node(0)).at(0).steps == 3);
}

TEST_CASE("rejoin: a mini-batch that ends while joining counts for nothing") {
  WorkerWorld world;
  world.get_ready();
  world.hear(kSchedulerNode, proto::Refusal{RefusalCode::NotMember, "join first"});
  world.core.on_step(world.now, {.spent = kSecond, .loss_sum = 1, .samples = 1});
  CHECK(world.core.progress().steps == 0);
  CHECK(world.core.next_action() == Action::Wait);
}

TEST_CASE("refusal: any other ends the worker, with who and why") {
  for (const auto code : {RefusalCode::ProtocolVersion, RefusalCode::ClusterId,
                          RefusalCode::NameTaken, RefusalCode::ModelSize, RefusalCode::BadMessage,
                          RefusalCode::ClusterFull, RefusalCode::Stopped}) {
    CAPTURE(static_cast<int>(code));
    WorkerWorld joining;
    joining.core.on_start(joining.now);
    joining.hear(kSchedulerNode, proto::Refusal{code, "because"});
    REQUIRE(joining.core.failure().has_value());
    CHECK(joining.core.failure()->code == ErrorCode::Refused);
    CHECK(joining.core.failure()->message == "scheduler refused this worker: because");
    CHECK(joining.core.next_action() == Action::Fail);

    Committed training;
    training.hear(server_node(1), proto::Refusal{code, "because"});
    REQUIRE(training.core.failure().has_value());
    CHECK(training.core.failure()->message == "server 1 refused this worker: because");
    CHECK_FALSE(training.core.poll_wakeup().has_value());
  }
}

TEST_CASE(
    "broken peers: another cluster, a shard map of another model, a reply that does not fit") {
  WorkerWorld elsewhere;
  elsewhere.core.on_start(elsewhere.now);
  proto::Message foreign;
  foreign.cluster = 0xbad;
  foreign.sender = kSchedulerNode;
  foreign.body = proto::Heartbeat{};
  elsewhere.core.on_message(elsewhere.now, kSchedulerNode, foreign);
  REQUIRE(elsewhere.core.failure().has_value());
  CHECK(elsewhere.core.failure()->message.find("another cluster") != std::string::npos);

  WorkerWorld other_model;
  other_model.core.on_start(other_model.now);
  auto map = other_model.shard_map();
  map.shards.back().range.end = 6;
  other_model.hear(
      kSchedulerNode,
      proto::Welcome{.you = {proto::Role::Worker, 0}, .parameters = 6, .range = {}, .shards = map});
  REQUIRE(other_model.core.failure().has_value());
  CHECK(other_model.core.failure()->message ==
        "scheduler: its shard map covers 6 parameters, our model has 5");

  Committed world;
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 9, .held = {}},
             tests::payload_of({1, 2}));
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Corrupt);
}

}  // namespace
}  // namespace rubato::worker
