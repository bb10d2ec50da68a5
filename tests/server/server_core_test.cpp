// One shard and its peers: joining, member lists, pulls, and everything it must refuse.
#include "server/server_core.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using proto::RefusalCode;
using tests::bodies;
using tests::sent;

TEST_CASE("server: says Hello until it is welcome, then a heartbeat now and then") {
  const ServerSetup setup;
  ServerCore core(ServerWorld::options(setup), ServerWorld::initial(setup),
                  ServerWorld::gate(setup), kSchedulerPeer);
  core.on_start({0});
  const auto first = sent(core);
  REQUIRE(bodies<proto::Hello>(first, kSchedulerPeer).size() == 1);
  CHECK(bodies<proto::Hello>(first, kSchedulerPeer)[0].endpoint == "tcp://10.0.0.1:5700");
  CHECK(bodies<proto::Hello>(first, kSchedulerPeer)[0].parameters == 5);
  CHECK(core.poll_wakeup() == Instant{1'000'000'000});
  core.on_wakeup({1'000'000'000});
  CHECK(bodies<proto::Hello>(sent(core), kSchedulerPeer).size() == 1);

  proto::Message welcome;
  welcome.cluster = kCluster;
  welcome.body = proto::Welcome{
      .you = {proto::Role::Server, 3}, .parameters = 5, .range = {1, 4}, .shards = {}};
  core.on_message({1'500'000'000}, kSchedulerPeer, welcome);
  CHECK(core.id() == proto::NodeId{proto::Role::Server, 3});
  CHECK(core.parameters() == std::vector<float>{20, 30, 40});
  CHECK(core.poll_wakeup() == Instant{3'500'000'000});
  core.on_wakeup({3'500'000'000});
  const auto beat = sent(core);
  CHECK(bodies<proto::Heartbeat>(beat, kSchedulerPeer).size() == 1);
  CHECK(beat[0].message.sender == proto::NodeId{proto::Role::Server, 3});
}

TEST_CASE("server: a second Welcome does not put the parameters back") {
  ServerWorld shard;
  shard.members(1, {0});
  shard.commit(0, 2, {1, 1, 1, 1, 1});
  shard.from_scheduler(proto::Welcome{
      .you = {proto::Role::Server, 0}, .parameters = 5, .range = {0, 5}, .shards = {}});
  CHECK(shard.parameters() == std::vector<float>{9, 19, 29, 39, 49});
}

TEST_CASE("server: a range beyond its model is an error, not a crash") {
  const ServerSetup setup;
  ServerCore core(ServerWorld::options(setup), ServerWorld::initial(setup),
                  ServerWorld::gate(setup), kSchedulerPeer);
  proto::Message welcome;
  welcome.cluster = kCluster;
  welcome.body = proto::Welcome{
      .you = {proto::Role::Server, 0}, .parameters = 9, .range = {0, 9}, .shards = {}};
  core.on_message({0}, kSchedulerPeer, welcome);
  REQUIRE(core.failure().has_value());
  CHECK(core.failure()->message == "scheduler: our range ends at 9, our model has 5 parameters");
}

TEST_CASE("server: a refusal, silence and Stop each end it, and it says why") {
  ServerWorld refused;
  refused.from_scheduler(proto::Refusal{RefusalCode::NameTaken, "server name 'a' is taken"});
  REQUIRE(refused.core.failure().has_value());
  CHECK(refused.core.failure()->code == ErrorCode::Refused);
  CHECK(refused.core.failure()->message ==
        "scheduler refused this server: server name 'a' is taken");

  const ServerSetup setup;
  ServerCore alone(ServerWorld::options(setup), ServerWorld::initial(setup),
                   ServerWorld::gate(setup), kSchedulerPeer);
  alone.on_start({0});
  for (Instant now; now < Instant{} + Duration::from_seconds(60); now = *alone.poll_wakeup()) {
    alone.on_wakeup(now);
    CHECK_FALSE(alone.failure().has_value());
  }
  alone.on_wakeup(Instant{} + Duration::from_seconds(60));
  REQUIRE(alone.failure().has_value());
  CHECK(alone.failure()->code == ErrorCode::Timeout);

  ServerWorld stopped;
  stopped.from_scheduler(proto::Stop{"target reached"});
  CHECK(stopped.core.stopped() == "target reached");
  CHECK_FALSE(stopped.core.failure().has_value());
}

TEST_CASE(
    "server: whom the scheduler does not know, since it is another run's, ends to be restarted") {
  ServerWorld shard;
  shard.from_scheduler(proto::Refusal{RefusalCode::NotMember, "server 0 is of another run"});
  REQUIRE(shard.core.failure().has_value());
  CHECK(shard.core.failure()->code == ErrorCode::Gone);
  CHECK(shard.core.failure()->message == "scheduler: server 0 is of another run");
}

// Lets time pass alarm by alarm, until `end` or a failure. Returns: whether a heartbeat asked for
// an answer; the first such is answered if `answered`.
bool pass_alone(ServerWorld& shard, Duration time, bool answered) {
  bool asked = false;
  for (const Instant end = shard.now + time; shard.now < end && !shard.core.failure();) {
    shard.now = std::min(*shard.core.poll_wakeup(), end);
    shard.core.on_wakeup(shard.now);
    for (const auto& out : sent(shard.core)) {
      if (out.message.sent.ns == 0) continue;
      CHECK(out.message.sent == shard.now);
      if (answered && !asked)
        shard.from_scheduler(proto::Heartbeat{.echo = out.message.sent, .clock = {}});
      asked = true;
    }
  }
  return asked;
}

TEST_CASE(
    "server: without commits it asks the scheduler whether the run is over, and ends unheard") {
  const Duration limit = proto::JoinTiming{}.forsaken_after;
  ServerWorld shard;
  shard.members(1, {0});
  CHECK_FALSE(pass_alone(shard, limit * 0.45, true));
  shard.commit(0, 2, {1, 1, 1, 1, 1});  // the scheduler's silence stops nobody who trains
  CHECK_FALSE(pass_alone(shard, limit * 0.45, true));
  CHECK(pass_alone(shard, limit, true));
  CHECK_FALSE(shard.core.failure().has_value());
  CHECK(pass_alone(shard, limit, false));
  REQUIRE(shard.core.failure().has_value());
  CHECK(shard.core.failure()->code == ErrorCode::Gone);
  CHECK(shard.core.failure()->message ==
        "scheduler: no answer for 600 s; is it running? Restart this node to join its next run");
}

TEST_CASE("server: member lists: newer ones replace, older ones do not, each is acknowledged") {
  ServerWorld shard;
  const auto acked = [&] {
    std::string epochs;
    for (const auto& ack : bodies<proto::MembersAck>(sent(shard.core), kSchedulerPeer))
      epochs += std::to_string(ack.epoch) + " ";
    return epochs;
  };
  const auto knows = [&](std::uint32_t worker) {
    shard.hear(ServerWorld::message(worker, proto::Pull{1}));
    return bodies<proto::Refusal>(sent(shard.core), peer_of(worker)).empty();
  };
  shard.members(3, {0, 1});
  CHECK(acked() == "3 ");
  shard.members(3, {0, 1});  // resent
  CHECK(acked() == "3 ");
  shard.members(2, {0});  // late
  CHECK(acked() == "3 ");
  CHECK(knows(0));
  CHECK(knows(1));
  shard.members(4, {1, 2});
  CHECK(acked() == "4 ");
  CHECK_FALSE(knows(0));
  CHECK(knows(1));
  CHECK(knows(2));
}

TEST_CASE("server: a member list before its Welcome is left for the scheduler to repeat") {
  const ServerSetup setup;
  ServerCore core(ServerWorld::options(setup), ServerWorld::initial(setup),
                  ServerWorld::gate(setup), kSchedulerPeer);
  proto::Message list;
  list.cluster = kCluster;
  list.body = proto::Members{.epoch = 1, .members = {{{0}, life_of(0)}}};
  core.on_message({0}, kSchedulerPeer, list);
  CHECK(sent(core).empty());
}

TEST_CASE("server: an evaluator that no list names gets no answer") {
  ServerWorld shard;
  sent(shard.core);
  const auto answers = [&](Incarnation life) {
    auto pull = ServerWorld::pull_of_evaluator();
    pull.incarnation = life;
    shard.hear(pull);
    return sent(shard.core).size();
  };
  for (const Incarnation life : {Incarnation{0}, kEvaluator}) CHECK(answers(life) == 0);
  shard.members(1, {0});
  sent(shard.core);
  for (const Incarnation life : {Incarnation{0}, kEvaluator + 1}) CHECK(answers(life) == 0);
  CHECK(answers(kEvaluator) > 0);
  // A list with another one: it has taken its place.
  shard.from_scheduler(proto::Members{.epoch = 2, .members = {}, .evaluator = kEvaluator + 1});
  sent(shard.core);
  CHECK(answers(kEvaluator) == 0);
  CHECK(answers(kEvaluator + 1) > 0);
}

TEST_CASE("server: parameters are for members and the evaluator") {
  ServerWorld shard;
  shard.members(1, {0});
  sent(shard.core);
  for (const auto role : {proto::Role::Server, proto::Role::Scheduler}) {
    proto::Message pull = ServerWorld::message(0, proto::Pull{9});
    pull.sender.role = role;
    shard.core.on_message(shard.now, 42, pull);
    const auto said = sent(shard.core);
    REQUIRE(said.size() == 1);
    CHECK(std::get<proto::Refusal>(said[0].message.body).code == RefusalCode::NotMember);
  }
}

TEST_CASE("server: a pull brings every parameter once, in chunks of one version") {
  ServerWorld shard;
  shard.members(1, {0});
  shard.commit(0, 2, {1, 2, 3, 4, 5});
  sent(shard.core);
  proto::Message pull = ServerWorld::message(0, proto::Pull{9});
  SUBCASE("by a member") {}
  SUBCASE("by the evaluator of the list") {
    pull = ServerWorld::pull_of_evaluator(9);
  }
  shard.core.on_message(shard.now, 42, pull);
  std::vector<float> pulled;
  for (const auto& out : sent(shard.core)) {
    const auto& chunk = std::get<proto::Parameters>(out.message.body);
    CHECK(out.to == 42);
    CHECK(chunk.sequence == 9);
    CHECK(chunk.version == 1);
    CHECK(chunk.total == 5);
    CHECK(chunk.offset == pulled.size());
    CHECK(chunk.count <= 2);
    CHECK(chunk.held == Duration{});
    const auto values = tests::values_of(out.message.payload);
    CHECK(values.size() == chunk.count);
    pulled.insert(pulled.end(), values.begin(), values.end());
  }
  CHECK(pulled == std::vector<float>{9, 18, 27, 36, 45});
}

TEST_CASE("server: a reply under way keeps its parameters while later commits are applied") {
  ServerWorld shard;
  shard.members(1, {0, 1});
  shard.commit(0, 2, {1, 1, 1, 1, 1});
  const auto before = sent(shard.core);
  shard.commit(1, 2, {5, 5, 5, 5, 5});
  for (const auto& out : before)
    if (const auto* chunk = std::get_if<proto::Parameters>(&out.message.body);
        chunk && chunk->offset == 0)
      CHECK(tests::values_of(out.message.payload) == std::vector<float>{9, 19});
}

// --- refusals ------------------------------------------------------------------------------------

// Worker 0 has a commit half there, worker 1 has one held; 2 is nobody.
struct Refused {
  const char* what;
  RefusalCode code;
  std::function<proto::Message(const ServerWorld&)> message;
};

proto::Message changed(proto::Message message, const std::function<void(proto::Message&)>& edit) {
  edit(message);
  return message;
}

const std::vector<Refused>& refused_messages() {
  static const std::vector<Refused> table = {
      {"wrong cluster", RefusalCode::ClusterId,
       [](const ServerWorld& s) {
         return changed(s.chunk(0, 2, 2, {1, 1}), [](auto& m) { m.cluster = 0xbad; });
       }},
      {"unknown worker", RefusalCode::NotMember,
       [](const ServerWorld& s) {
         return s.chunk(2, 1, 0, {1, 1});
       }},
      {"a commit from a node that is no worker", RefusalCode::NotMember,
       [](const ServerWorld& s) {
         return changed(s.chunk(0, 2, 2, {1, 1}),
                        [](auto& m) { m.sender.role = proto::Role::Evaluator; });
       }},
      {"another incarnation commits", RefusalCode::NotMember,
       [](const ServerWorld& s) {
         return changed(s.chunk(0, 2, 2, {1, 1}), [](auto& m) { m.incarnation = 77; });
       }},
      {"another incarnation pulls", RefusalCode::NotMember,
       [](const ServerWorld&) {
         return changed(ServerWorld::message(0, proto::Pull{1}),
                        [](auto& m) { m.incarnation = 77; });
       }},
      {"another incarnation probes", RefusalCode::NotMember,
       [](const ServerWorld&) {
         return changed(ServerWorld::message(0, proto::Probe{2}),
                        [](auto& m) { m.incarnation = 77; });
       }},
      {"a slice of another size", RefusalCode::ModelSize,
       [](const ServerWorld& s) {
         return changed(s.chunk(0, 2, 2, {1, 1}),
                        [](auto& m) { std::get<proto::Commit>(m.body).total = 6; });
       }},
      {"an overlapping chunk", RefusalCode::BadMessage,
       [](const ServerWorld& s) {
         return s.chunk(0, 2, 1, {1, 1});
       }},
      {"a new commit while one is held", RefusalCode::BadMessage,
       [](const ServerWorld& s) {
         return s.chunk(1, 3, 0, {1, 1});
       }},
      {"a message that servers have no use for", RefusalCode::BadMessage,
       [](const ServerWorld&) { return ServerWorld::message(0, proto::Progress{}); }},
  };
  return table;
}

TEST_CASE("server: what it refuses gets one refusal with the right code, and changes nothing") {
  for (const auto& refused : refused_messages()) {
    CAPTURE(refused.what);
    ServerSetup setup;
    setup.sync = "bsp";
    ServerWorld shard(setup);
    shard.members(1, {0, 1});
    shard.hear(shard.chunk(0, 2, 0, {1, 1}));
    shard.commit(1, 2, {1, 1, 1, 1, 1});
    sent(shard.core);

    const auto message = refused.message(shard);
    shard.hear(message);
    const auto answers = sent(shard.core);
    REQUIRE(answers.size() == 1);
    const auto refusals = bodies<proto::Refusal>(answers, peer_of(message.sender.index));
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].code == refused.code);
    CHECK(shard.core.stats().messages_refused == 1);
    CHECK(shard.core.version() == 0);
    CHECK(shard.parameters() == setup.initial);

    // The commits under way were not touched: they complete as if nothing had been said.
    shard.hear(shard.chunk(0, 2, 2, {1, 1}));
    shard.hear(shard.chunk(0, 2, 4, {1}));
    CHECK(replies(sent(shard.core)) == "worker 0: seq 2 version 2, worker 1: seq 2 version 2");
    CHECK(shard.parameters() == std::vector<float>{8, 18, 28, 38, 48});
  }
}

TEST_CASE("server: the refusals say who and what to do") {
  ServerWorld shard;
  shard.members(1, {0});
  const auto text = [&](const proto::Message& message) {
    shard.hear(message);
    return bodies<proto::Refusal>(sent(shard.core), peer_of(message.sender.index)).at(0).message;
  };
  sent(shard.core);
  CHECK(
      text(shard.chunk(2, 1, 0, {1})) ==
      "worker 2 (incarnation 00000000000003ea) is not a member: join through the scheduler first");
  CHECK(text(changed(shard.chunk(0, 1, 0, {1}),
                     [](auto& m) { std::get<proto::Commit>(m.body).total = 6; })) ==
        "worker 0 commits 6 parameters, this shard holds 5: both sides need the same [model]");
  CHECK(text(ServerWorld::message(0, proto::Leave{"bye"})) ==
        "server has no use for Leave from worker 0");
}

TEST_CASE("server: bytes that did not decode cost their sender one refusal") {
  ServerWorld shard;
  shard.core.on_bad_frame(42, {ErrorCode::Corrupt, "not a Rubato frame"});
  shard.core.on_bad_frame(43, {ErrorCode::Refused, "the peer speaks protocol version 9"});
  const auto answers = sent(shard.core);
  REQUIRE(answers.size() == 2);
  CHECK(bodies<proto::Refusal>(answers, 42).at(0).code == RefusalCode::BadMessage);
  CHECK(bodies<proto::Refusal>(answers, 43).at(0).code == RefusalCode::ProtocolVersion);
  CHECK(shard.core.stats().messages_refused == 2);
}

TEST_CASE("server: a scheduler of another version ends a server that has not joined, no other") {
  const Error other{ErrorCode::Refused, "the peer speaks protocol version 10"};
  const ServerSetup setup;
  ServerCore fresh(ServerWorld::options(setup), ServerWorld::initial(setup),
                   ServerWorld::gate(setup), kSchedulerPeer);
  fresh.on_start(Instant{1});
  fresh.on_bad_frame(42, other);
  CHECK_FALSE(fresh.failure());
  fresh.on_bad_frame(kSchedulerPeer, {ErrorCode::Corrupt, "not a Rubato frame"});
  CHECK_FALSE(fresh.failure());
  fresh.on_bad_frame(kSchedulerPeer, other);
  REQUIRE(fresh.failure());
  CHECK(fresh.failure()->code == ErrorCode::Refused);
  CHECK(fresh.failure()->message == "scheduler: the peer speaks protocol version 10");

  ServerWorld member;
  member.core.on_bad_frame(kSchedulerPeer, other);
  CHECK_FALSE(member.core.failure());
}

}  // namespace
}  // namespace rubato::server
