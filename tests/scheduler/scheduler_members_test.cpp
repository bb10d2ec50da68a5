// Who is a member: leaving, being lost, coming back; lists resent; how a run ends.
#include <doctest/doctest.h>

#include "proto/identity.hpp"
#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

using proto::RefusalCode;
using tests::bodies;

TEST_CASE("members: a list is sent again each second to the servers that have not acknowledged") {
  SchedulerWorld world;
  world.server_hello(0);
  world.server_hello(1);
  world.worker_hello(kZero);
  world.collect();
  world.ack(1);
  CHECK(world.scheduler.poll_wakeup() == world.now + kSecond);

  world.now = world.now + Duration::from_ms(999);
  world.scheduler.on_wakeup(world.now);
  CHECK(world.collect().empty());
  for (int second = 0; second < 3; ++second) {
    world.now = world.now + kSecond;
    world.scheduler.on_wakeup(world.now);
    const auto said = world.collect();
    CHECK(said.size() == 1);
    CHECK(newest_members(said, server_peer(0)) == "0");
  }
  world.ack(0);
  world.now = world.now + kSecond;
  world.scheduler.on_wakeup(world.now);
  CHECK(world.collect().empty());
}

TEST_CASE("phase: the tuner's new phase is a new list, and part of all lists that follow") {
  SchedulerWorld world;
  world.start();
  world.tuner.phase = {.number = 1, .apart = {{WorkerId{1}, {.from = 7, .excluded = true}}}};
  world.from_worker(kZero, proto::Progress{});
  const auto told = world.collect();
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto lists = bodies<proto::Members>(told, server_peer(i));
    REQUIRE(lists.size() == 1);
    CHECK(lists[0].phase == world.tuner.phase);
    CHECK(lists[0].members.size() == 2);
  }
  world.ack(0);
  world.now = world.now + kSecond;
  world.scheduler.on_wakeup(world.now);
  CHECK(bodies<proto::Members>(world.collect(), server_peer(1)).size() == 1);
  world.ack(1);
  world.from_worker(kZero, proto::Progress{});
  CHECK(world.collect().empty());
  world.worker_hello(kTwo);
  const auto joined = bodies<proto::Members>(world.collect(), server_peer(0));
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].phase.number == 1);
  CHECK(joined[0].members.size() == 3);
}

TEST_CASE("members: joins that wait for an acknowledgement go as one list") {
  constexpr std::uint32_t kWorkers = 500;
  SchedulerWorld world(some_options(2, kWorkers));
  world.server_hello(0);
  world.server_hello(1);
  for (std::uint32_t i = 0; i < kWorkers; ++i) world.worker_hello(played(i));
  auto said = world.collect();
  // At most 4096 entries on their way: the lists of the first 90, one by one.
  CHECK(count<proto::Members>(said, server_peer(0)) == 90);
  world.ack(0);
  said = world.collect();
  CHECK(count<proto::Members>(said, server_peer(0)) == 1);
  CHECK(count<proto::Members>(said, server_peer(1)) == 0);
  CHECK(bodies<proto::Members>(said, server_peer(0)).at(0).members.size() == kWorkers);
  world.ack(0);
  CHECK_FALSE(world.scheduler.started().has_value());
  world.ack(1);
  world.collect();
  world.ack(1);
  CHECK(world.scheduler.started().has_value());
  said = world.collect();
  for (std::uint32_t i = 0; i < kWorkers; ++i)
    REQUIRE(count<proto::Start>(said, played(i).peer) == 1);
}

TEST_CASE("leave: the shards and the tuner are told, the others train on") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, proto::Leave{"battery"});
  const auto said = world.collect();
  CHECK(newest_members(said, server_peer(0)) == "1");
  CHECK(newest_members(said, server_peer(1)) == "1");
  CHECK(count<proto::Stop>(said, kOne.peer) == 0);
  CHECK(world.tuner.heard == "leave 0");
  CHECK(world.log().find("worker 0 'edge-0' left: battery\n") != std::string::npos);
  CHECK(world.scheduler.record().workers[0].fate == "left");
}

TEST_CASE("keys: a member whose key was revoked leaves by the word that it would have said") {
  SchedulerWorld world;
  world.start();
  const auto leave = world.scheduler.farewell_of(kOne.peer, "its key was revoked");
  REQUIRE(leave);
  CHECK(leave->sender == proto::NodeId{proto::Role::Worker, kOne.index});
  CHECK(leave->incarnation == kOne.incarnation);
  world.scheduler.on_message(world.now, kOne.peer, *leave);
  CHECK(newest_members(world.collect(), server_peer(0)) == "0");
  CHECK(world.scheduler.members() == 1);
  // Once. Neither a server nor somebody unknown has a word to say.
  for (const proto::PeerId peer : {kOne.peer, server_peer(0), proto::PeerId{4711}})
    CHECK(!world.scheduler.farewell_of(peer, "its key was revoked"));
}

TEST_CASE("keys: workers are told the key that each server has proved, also of a later process") {
  const std::string first(proto::kKeyCharacters, 'a'), later(proto::kKeyCharacters, 'b');
  SchedulerWorld world(some_options(1, 1));
  proto::Hello hello{"shard-0", 10, "tcp://10.0.0.1:5700"};
  hello.public_key = first;
  const auto told = [&world] {
    std::string key;
    for (const auto& out : world.collect())
      if (const auto* welcome = std::get_if<proto::Welcome>(&out.message.body))
        if (!welcome->shards.shards.empty()) key = welcome->shards.shards[0].public_key;
    return key;
  };
  world.from_server(0, hello);
  world.worker_hello(kZero);
  CHECK(told() == first);
  hello.public_key = later;
  world.hear(server_peer(0), {proto::Role::Server, 0}, 4711, hello);
  world.worker_hello(kZero);
  CHECK(told() == later);
}

TEST_CASE("leave: what still arrives of a worker that left is ignored") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, proto::Leave{"battery"});
  world.collect();
  world.tuner.heard.clear();
  world.from_worker(kZero, proto::Progress{});
  world.from_worker(kZero, proto::Leave{"battery"});
  CHECK(world.collect().empty());
  CHECK(world.tuner.heard.empty());
}

TEST_CASE("leave: the name is free again, the number is not") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, proto::Leave{"battery"});
  world.collect();
  PlayedWorker back = kZero;
  back.incarnation = 4242;
  world.worker_hello(back);
  const auto said = world.collect();
  CHECK(bodies<proto::Welcome>(said, back.peer).at(0).you == proto::NodeId{proto::Role::Worker, 2});
  CHECK(newest_members(said, server_peer(0)) == "1 2");
}

TEST_CASE("lost: after ten silent seconds a worker is out, and training goes on without it") {
  SchedulerWorld world;
  world.start();
  world.pass(kSecond * 9.9, {kOne});
  CHECK(world.collect().empty());
  world.tuner.heard.clear();
  world.pass(kSecond * 0.1, {kOne});
  const auto said = world.collect();
  CHECK(newest_members(said, server_peer(0)) == "1");
  CHECK(newest_members(said, server_peer(1)) == "1");
  CHECK(world.tuner.heard.find("leave 0") != std::string::npos);
  CHECK(world.log().find("worker 0 'edge-0' lost: no heartbeat for 10 s\n") != std::string::npos);
  CHECK_FALSE(world.scheduler.stopped().has_value());
  CHECK(world.scheduler.record().workers[0].fate == "lost");
}

TEST_CASE("lost: the alarm is set for the next look, and for the first silence that ends") {
  SchedulerWorld world;
  world.start();
  const Instant began = world.now;
  CHECK(world.scheduler.poll_wakeup() == began + kSecond * 2);
  world.pass(kSecond * 9, {kOne});
  CHECK_FALSE(world.log().find("lost") != std::string::npos);
  CHECK(world.scheduler.poll_wakeup() == began + kSecond * 10);
}

TEST_CASE("lost: a scheduler that was away itself does not count that time as others' silence") {
  SchedulerWorld world;
  world.start();
  world.pass(kSecond, {kZero, kOne});
  world.now = world.now + kSecond * 1000;  // a frozen machine, and heartbeats wait in the socket
  world.scheduler.on_wakeup(world.now);
  CHECK_FALSE(world.scheduler.stopped().has_value());
  CHECK(world.scheduler.record().workers[0].fate == "member");
  world.pass(kSecond * 7, {kOne});
  CHECK(world.scheduler.record().workers[0].fate == "member");
  world.pass(kSecond * 3, {kOne});  // it is dead indeed
  CHECK(world.scheduler.record().workers[0].fate == "lost");
  CHECK_FALSE(world.scheduler.stopped().has_value());
}

TEST_CASE("lost: one that was only cut off is told, and may join again as someone new") {
  SchedulerWorld world;
  world.start();
  world.pass(kSecond * 10, {kOne});
  world.collect();
  world.from_worker(kZero, proto::Progress{});
  const auto refusals = bodies<proto::Refusal>(world.collect(), kZero.peer);
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].code == RefusalCode::NotMember);
  CHECK(refusals[0].message == "worker 0 'edge-0' was declared lost: restart it to join again");

  PlayedWorker back = kZero;
  back.incarnation += 1;
  world.worker_hello(back);
  const auto said = world.collect();
  CHECK(bodies<proto::Welcome>(said, back.peer).at(0).you == proto::NodeId{proto::Role::Worker, 2});
  CHECK(newest_members(said, server_peer(0)) == "1 2");
}

TEST_CASE("lost: before the start too, so that nobody waits for a dead one") {
  SchedulerWorld world;
  world.server_hello(0);
  world.server_hello(1);
  world.worker_hello(kZero);
  world.collect();
  world.ack(0);
  world.ack(1);
  world.pass(kSecond * 10, {});
  world.collect();
  world.worker_hello(kOne);
  world.collect();
  world.ack(0);
  world.ack(1);
  CHECK_FALSE(world.scheduler.started().has_value());  // one of two again
  world.worker_hello(kTwo);
  world.collect();
  world.ack(0);
  world.ack(1);
  CHECK(world.scheduler.started().has_value());
}

TEST_CASE("nobody: when the last worker is gone the run waits for another, says so, then ends") {
  auto options = some_options();
  options.workers_absent_max = kSecond * 25;
  SchedulerWorld world(options);
  world.start();
  world.from_worker(kZero, proto::Leave{"battery"});
  world.log();
  world.from_worker(kOne, proto::Leave{"battery"});
  CHECK_FALSE(world.scheduler.stopped().has_value());
  world.pass(kSecond * 21, {});
  CHECK(world.log() ==
        "worker 1 'edge-1' left: battery\n"
        "no worker is left; waiting for one for up to 25 s\n"
        "no worker is left; waiting for one for up to 15 s\n"
        "no worker is left; waiting for one for up to 5 s\n");
  // Somebody comes: the limit begins anew.
  world.worker_hello(kTwo);
  world.collect();
  for (const std::uint32_t server : {0, 1}) world.ack(server);
  CHECK(count<proto::Start>(world.collect(), kTwo.peer) == 1);
  world.pass(kSecond * 30, {kTwo});
  CHECK_FALSE(world.scheduler.stopped().has_value());
  world.from_worker(kTwo, proto::Leave{"battery"});
  world.pass(kSecond * 24, {});
  CHECK_FALSE(world.scheduler.stopped().has_value());
  world.pass(kSecond, {});
  CHECK(world.scheduler.stopped() == "no worker is left, and none came for 25 s");
  CHECK(world.scheduler.drained());
  const auto stops = tests::bodies<proto::Stop>(world.collect(), server_peer(0));
  REQUIRE(stops.size() == 1);
  CHECK(stops[0].failed);
  // What the record says of who came and went.
  const RunRecord record = world.scheduler.record();
  REQUIRE(record.workers.size() == 3);
  CHECK(record.workers[0].joined_seconds == 0);
  CHECK(record.workers[0].left_seconds == 0);
  CHECK(record.workers[2].joined_seconds == 21);
  CHECK(record.workers[2].left_seconds == 51);
}

// Who is told of the end, in order: "0 1 evaluator shard-0".
std::string told_of_the_end(SchedulerWorld& world) {
  const auto said = world.collect();
  std::string who;
  for (const auto& [name, peer] :
       std::vector<std::pair<std::string, proto::PeerId>>{{"0", kZero.peer},
                                                          {"1", kOne.peer},
                                                          {"shard-0", server_peer(0)},
                                                          {"shard-1", server_peer(1)},
                                                          {"evaluator", kEvaluatorPeer}})
    for (std::size_t i = 0; i < count<proto::Stop>(said, peer); ++i)
      who += (who.empty() ? "" : " ") + name;
  return who;
}

TEST_CASE("the end: workers leave, then the evaluator pulls a last time, then the servers end") {
  for (const bool worker_died : {false, true}) {
    for (const bool evaluator_died : {false, true}) {
      CAPTURE(worker_died);
      CAPTURE(evaluator_died);
      SchedulerWorld world;
      world.from_evaluator(proto::Hello{"evaluator", 10, ""});
      world.start();
      world.scheduler.stop(world.now, "enough");
      world.scheduler.stop(world.now, "again");
      CHECK(world.scheduler.stopped() == "enough");
      CHECK(told_of_the_end(world) == "0 1");

      proto::Progress last;
      last.steps = 11;
      world.from_worker(kZero, last);
      world.from_worker(kZero, proto::Leave{"enough"});
      CHECK_FALSE(world.scheduler.drained());
      CHECK(told_of_the_end(world) == "0");  // its report came after the end
      if (worker_died) {
        world.pass(kSecond * 10, {});
      } else {
        world.from_worker(kOne, proto::Leave{"enough"});
        CHECK(world.scheduler.drained());
      }
      CHECK(told_of_the_end(world) == "evaluator");
      world.from_server(0, proto::Heartbeat{});
      CHECK(told_of_the_end(world) == "");
      CHECK_FALSE(world.scheduler.over());

      if (evaluator_died) {
        world.pass(kSecond * 300, {});
      } else {
        world.from_evaluator(proto::Evaluation{{}, 0.5, 0.9, 7});
        world.from_evaluator(proto::Leave{"enough"});
      }
      CHECK(told_of_the_end(world) == "shard-0 shard-1");
      CHECK_FALSE(world.scheduler.over());
      for (const std::uint32_t i : {0, 1}) world.from_server(i, proto::Leave{"enough"});
      CHECK(world.scheduler.over());
      CHECK(world.scheduler.steps() == 11);
    }
  }
}

TEST_CASE("the end: a server that falls silent ends the last pull, for nobody takes its place") {
  SchedulerWorld world;
  world.from_evaluator(proto::Hello{"evaluator", 10, ""});
  world.start();
  world.scheduler.stop(world.now, "enough");
  for (const auto& worker : {kZero, kOne}) world.from_worker(worker, proto::Leave{"enough"});
  world.log();
  for (int second = 0; second < 9; ++second) {
    world.now = world.now + kSecond;
    world.from_server(0, proto::Heartbeat{});
    world.scheduler.on_wakeup(world.now);
  }
  CHECK_FALSE(world.scheduler.over());
  world.now = world.now + kSecond;
  CHECK(world.scheduler.poll_wakeup() <= world.now);
  world.scheduler.on_wakeup(world.now);
  world.from_server(0, proto::Leave{"enough"});
  CHECK(world.scheduler.over());
  CHECK(world.log().find("server 1 'shard-1' is silent") != std::string::npos);
}

TEST_CASE("the end: where a shard is gone nobody waits for a last pull") {
  SchedulerWorld world;
  world.from_evaluator(proto::Hello{"evaluator", 10, ""});
  world.start();
  world.collect();
  world.scheduler.stop_without_parameters(world.now, "a server ended");
  const auto said = world.collect();
  for (const auto peer : {kZero.peer, kOne.peer, server_peer(0), server_peer(1), kEvaluatorPeer})
    CHECK(count<proto::Stop>(said, peer) == 1);
}

TEST_CASE("the end: a member whose connection breaks then is told again, over the new one") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "enough");
  world.from_worker(kOne, proto::Leave{"enough"});
  world.collect();
  world.pass(kSecond * 6, {});
  PlayedWorker back = kZero;
  back.peer = 300;
  world.from_worker(back, proto::Progress{});
  CHECK(count<proto::Stop>(world.collect(), 300) == 1);
  CHECK_FALSE(world.scheduler.drained());
  world.from_worker(back, proto::Leave{"enough"});
  CHECK(world.scheduler.drained());
}

TEST_CASE("the end: a member that was to join again leaves as its next incarnation") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "enough");
  PlayedWorker next = kZero;
  ++next.incarnation;
  world.from_worker(next, proto::Progress{});
  CHECK_FALSE(world.scheduler.drained());
  world.from_worker(next, proto::Leave{"enough"});
  world.from_worker(kOne, proto::Leave{"enough"});
  CHECK(world.scheduler.drained());
}

TEST_CASE("the end: nobody is waited for who is silent") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "enough");
  world.pass_in_silence(kSecond * 20);
  CHECK(world.scheduler.over());
}

TEST_CASE("the end: a server that did not hear of it is told again") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "enough");
  world.from_worker(kZero, proto::Leave{"enough"});
  world.from_worker(kOne, proto::Leave{"enough"});
  world.collect();
  world.from_server(1, proto::Heartbeat{});
  const auto said = world.collect();
  REQUIRE(said.size() == 1);
  CHECK(bodies<proto::Stop>(said, server_peer(1)).at(0).reason == "enough");
}

TEST_CASE("members: a server that reaches us over another connection is answered there") {
  SchedulerWorld world;
  world.start();
  world.hear(300, {proto::Role::Server, 1}, 71, proto::Heartbeat{});
  world.worker_hello(kTwo);
  const auto said = world.collect();
  CHECK(newest_members(said, server_peer(0)) == "0 1 2");
  CHECK(newest_members(said, server_peer(1)) == "-");
  CHECK(newest_members(said, 300) == "0 1 2");
}

TEST_CASE("members: a worker that the cluster file does not list is refused, and said once") {
  auto options = some_options();
  options.listed = {kZero.name, kOne.name};
  SchedulerWorld world(options);
  world.start();
  world.log();
  for (int i = 0; i < 3; ++i) {
    world.worker_hello(kTwo);
    const auto refused = bodies<proto::Refusal>(world.collect(), kTwo.peer);
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].message ==
          "worker 'edge-2' is not in the cluster file; with join = \"open\" others may join");
  }
  CHECK(world.scheduler.members() == 2);
  const std::string log = world.log();
  CHECK(log.find("refused: worker 'edge-2'") == log.rfind("refused: worker 'edge-2'"));
}

TEST_CASE("the end: max_seconds has an alarm of its own, max_steps counts all workers") {
  auto options = some_options();
  options.stop.max_seconds = 1.5;
  options.stop.max_steps = 100;
  SchedulerWorld world(options);
  world.start();
  CHECK(world.scheduler.poll_wakeup() == world.now + kSecond * 1.5);
  proto::Progress progress;
  progress.steps = 60;
  SUBCASE("time") {
    world.from_worker(kZero, progress);
    world.now = world.now + kSecond * 1.5;
    world.scheduler.on_wakeup(world.now);
    CHECK(world.scheduler.stopped() == "max_seconds 1.5 reached");
  }
  SUBCASE("steps") {
    world.from_worker(kZero, progress);
    CHECK_FALSE(world.scheduler.stopped().has_value());
    progress.steps = 40;
    world.from_worker(kOne, progress);
    CHECK(world.scheduler.stopped() == "max_steps 100 reached");
  }
}

}  // namespace
}  // namespace rubato::scheduler
