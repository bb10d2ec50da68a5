// A worker among silent, refusing and broken peers: it asks, repeats exactly what is missing, joins
// again, or ends with a line that says whom it waited for.
#include <doctest/doctest.h>

#include <algorithm>
#include <ranges>

#include "tests/worker/worker_world.hpp"

namespace rubato::worker {
namespace {

using proto::RefusalCode;
using tests::bodies;

const Duration kSecond = Duration::from_seconds(1);

WorldSetup two_shards() {
  WorldSetup setup;
  setup.parameters = 10;
  setup.shards = 2;
  return setup;
}

// A commit of 5 elements to each of two shards, in chunks of 2, is under way.
struct Committed : WorkerWorld {
  Committed() : WorkerWorld(two_shards()) {
    get_ready();
    step();
    commit();
    sent();
  }
};

TEST_CASE("probe: after fifteen silent seconds, and only the shards that have not answered") {
  Committed world;
  world.reply(1, 2);
  world.pass(kSecond * 14.9);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).empty());
  world.pass(kSecond * 0.1);
  const auto said = world.sent();
  REQUIRE(bodies<proto::Probe>(said, server_node(0)).size() == 1);
  CHECK(bodies<proto::Probe>(said, server_node(0))[0].sequence == 2);
  CHECK(bodies<proto::Probe>(said, server_node(1)).empty());
  world.pass(kSecond);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).empty());
  world.pass(kSecond * 14);
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).size() == 1);
}

TEST_CASE("probe: the alarm rings for it") {
  Committed world;
  for (int beat = 0; beat < 7; ++beat) world.pass(kSecond * 2);
  CHECK(world.core.poll_wakeup() == world.now + kSecond);
}

TEST_CASE("probe: any chunk of the reply puts it off") {
  Committed world;
  world.now = world.now + kSecond * 14;
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 5, .held = {}},
             tests::payload_of({1, 2}));
  world.pass(kSecond * 2);
  const auto said = world.sent();
  CHECK(bodies<proto::Probe>(said, server_node(0)).empty());
  CHECK(bodies<proto::Probe>(said, server_node(1)).size() == 1);
}

TEST_CASE("probe: exactly the missing chunks are sent again, all when none arrived") {
  Committed world;
  proto::ProbeReply answer;
  answer.sequence = 2;
  answer.missing_offsets = {2};
  world.hear(server_node(1), answer);
  auto said = world.sent();
  REQUIRE(said.size() == 1);
  const auto& again = std::get<proto::Commit>(said[0].message.body);
  CHECK(again.sequence == 2);
  CHECK(again.offset == 2);
  CHECK(again.count == 2);
  CHECK(again.steps == 1);
  CHECK(tests::values_of(said[0].message.payload) == std::vector<float>{7, 8});

  answer.missing_offsets.clear();
  answer.unknown = true;
  world.hear(server_node(0), answer);
  said = world.sent();
  CHECK(chunk_offsets(said, 0) == "0 2 4");
  CHECK(chunk_offsets(said, 1) == "");
}

TEST_CASE("a lent update: its answers take its place, chunk by chunk, and it comes back") {
  WorldSetup setup = two_shards();
  setup.lend = true;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  const auto said = world.sent();
  const auto first = std::find_if(said.begin(), said.end(), [](const proto::ToNode& out) {
    return out.to == server_node(0) && std::holds_alternative<proto::Commit>(out.message.body);
  });
  REQUIRE(first != said.end());
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 5, .held = {}},
             tests::payload_of({50, 51}));
  CHECK(tests::values_of(first->message.payload) == std::vector<float>{50, 51});
  world.hear(server_node(0),
             proto::Parameters{.sequence = 2, .offset = 2, .count = 3, .total = 5, .held = {}},
             tests::payload_of({52, 53, 54}));
  world.reply(1, 2, 7);
  world.load();
  const std::vector<float> expected{50, 51, 52, 53, 54, 7, 7, 7, 7, 7};
  CHECK(std::ranges::equal(world.core.parameters(), expected));
  const auto back = world.core.release_parameters();
  REQUIRE(back != nullptr);
  CHECK(std::ranges::equal(*back, expected));
  CHECK(reinterpret_cast<const std::byte*>(back->data()) == first->message.payload.bytes().data());
  CHECK(world.core.parameters().empty());
}

TEST_CASE("a lent update: what is sent again is the update, and what was answered is not sent") {
  WorldSetup setup = two_shards();
  setup.lend = true;
  WorkerWorld world(setup);
  world.get_ready();
  world.step();
  world.commit();
  world.sent();
  world.hear(server_node(1),
             proto::Parameters{.sequence = 2, .offset = 4, .count = 1, .total = 5, .held = {}},
             tests::payload_of({90}));
  proto::ProbeReply answer;
  answer.sequence = 2;
  answer.unknown =
      true;  // it knows the last chunk only, which does not tell the size of the others
  world.hear(server_node(1), answer);
  auto said = world.sent();
  CHECK(chunk_offsets(said, 1) == "0 2");
  CHECK(tests::values_of(said[0].message.payload) == std::vector<float>{5, 6});
  // It may still be under way when an earlier copy is answered.
  world.hear(server_node(1),
             proto::Parameters{.sequence = 2, .offset = 0, .count = 2, .total = 5, .held = {}},
             tests::payload_of({91, 92}));
  CHECK(tests::values_of(said[0].message.payload) == std::vector<float>{5, 6});
  world.hear(server_node(1),
             proto::Parameters{.sequence = 2, .offset = 2, .count = 2, .total = 5, .held = {}},
             tests::payload_of({93, 94}));
  world.reply(0, 2, 7);
  world.load();
  CHECK(std::ranges::equal(world.core.parameters(),
                           std::vector<float>{7, 7, 7, 7, 7, 91, 92, 93, 94, 90}));
}

TEST_CASE("probe: what is held, another commit's, out of range or no longer awaited: no answer") {
  Committed world;
  proto::ProbeReply held;
  held.sequence = 2;
  held.held = true;
  world.hear(server_node(0), held);
  proto::ProbeReply old;
  old.sequence = 1;
  old.unknown = true;
  world.hear(server_node(0), old);
  proto::ProbeReply outside;
  outside.sequence = 2;
  outside.missing_offsets = {5, 1'000'000};
  world.hear(server_node(0), outside);
  world.reply(0, 2);
  proto::ProbeReply late;
  late.sequence = 2;
  late.unknown = true;
  world.hear(server_node(0), late);
  CHECK(world.sent().empty());
  CHECK_FALSE(world.core.failure().has_value());
}

TEST_CASE("probe: a pull that got lost is pulled again") {
  WorkerWorld world;
  world.join();
  world.sent();
  proto::ProbeReply unknown;
  unknown.sequence = 1;
  unknown.unknown = true;
  world.hear(server_node(0), unknown);
  const auto said = world.sent();
  REQUIRE(said.size() == 1);
  CHECK(std::get<proto::Pull>(said[0].message.body).sequence == 1);
}

TEST_CASE("timeout: a server that answers is waited for, however long its gate holds") {
  Committed world;
  world.reply(1, 2);
  proto::ProbeReply held;
  held.sequence = 2;
  held.held = true;
  for (int i = 0; i < 100; ++i) {
    world.pass(kSecond * 15);
    CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).size() == 1);
    world.hear(server_node(0), held);
  }
  CHECK_FALSE(world.core.failure().has_value());
  world.reply(0, 2, 0, kSecond * 1499);
  world.load();
  CHECK(world.core.progress().wait == kSecond * 1499);
}

TEST_CASE("timeout: a silent server ends it with the server, its endpoint and the operation") {
  Committed world;
  world.reply(0, 2);
  for (int i = 0; i < 7; ++i) world.pass(kSecond * 15);
  CHECK(world.core.next_action() == Action::Wait);
  world.pass(kSecond * 15);
  CHECK(world.core.next_action() == Action::Fail);
  REQUIRE(world.core.failure().has_value());
  CHECK(world.core.failure()->code == ErrorCode::Timeout);
  CHECK(world.core.failure()->message ==
        "server 1 at tcp://10.0.0.1:5700: no answer to commit 2 for 120 s");

  WorkerWorld pulling;
  pulling.join();
  for (int i = 0; i < 8; ++i) pulling.pass(kSecond * 15);
  REQUIRE(pulling.core.failure().has_value());
  CHECK(pulling.core.failure()->message ==
        "server 0 at tcp://10.0.0.0:5700: no answer to pull 1 for 120 s");
}

TEST_CASE("timeout: a worker that was away itself asks again before it blames the server") {
  Committed world;
  world.pass(kSecond * 1000);  // a frozen machine, and the answers wait in the sockets
  CHECK_FALSE(world.core.failure().has_value());
  CHECK(bodies<proto::Probe>(world.sent(), server_node(0)).size() == 1);
  for (int i = 0; i < 6; ++i) world.pass(kSecond * 15);
  CHECK_FALSE(world.core.failure().has_value());
  world.pass(kSecond * 15);
  CHECK(world.core.failure().has_value());
}

TEST_CASE("timeout: a scheduler that never answers ends it, one that dies later does not") {
  WorkerWorld alone;
  alone.core.on_start(alone.now);
  for (int i = 0; i < 59; ++i) alone.pass(kSecond);
  CHECK_FALSE(alone.core.failure().has_value());
  alone.pass(kSecond);
  REQUIRE(alone.core.failure().has_value());
  CHECK(alone.core.failure()->code == ErrorCode::Timeout);

  WorkerWorld orphan;
  orphan.get_ready();
  for (Sequence sequence = 2; sequence < 50; ++sequence) {
    orphan.pass(kSecond * 10);
    orphan.step();
    orphan.commit();
    orphan.replies(sequence);
    orphan.load();
  }
  CHECK(orphan.core.next_action() == Action::Train);
}

// --- refusals ------------------------------------------------------------------------------------

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
  elsewhere.core.on_message(elsewhere.now, foreign);
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
