// Who may start when, what is refused, what the tuner and the stop criterion hear.
#include "scheduler/scheduler.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

using proto::RefusalCode;
using tests::bodies;

TEST_CASE("start: nobody starts before every server acknowledged a list that holds them all") {
  SchedulerWorld world;
  world.worker_hello(kZero);  // too early: no shards yet
  const auto answer = world.collect();
  CHECK(answer.size() == 1);  // heard, so that it does not give up
  CHECK(count<proto::Heartbeat>(answer, kZero.peer) == 1);

  world.server_hello(0);
  world.server_hello(1);
  const auto welcomes = world.collect();
  CHECK(bodies<proto::Welcome>(welcomes, server_peer(0)).at(0).range == ElementRange{0, 5});
  CHECK(bodies<proto::Welcome>(welcomes, server_peer(1)).at(0).range == ElementRange{5, 10});
  CHECK(bodies<proto::Welcome>(welcomes, server_peer(1)).at(0).you ==
        proto::NodeId{proto::Role::Server, 1});

  world.worker_hello(kZero);
  auto said = world.collect();
  const auto welcome = bodies<proto::Welcome>(said, kZero.peer);
  REQUIRE(welcome.size() == 1);
  CHECK(welcome[0].you == proto::NodeId{proto::Role::Worker, 0});
  CHECK(welcome[0].shards.parameters() == 10);
  CHECK(welcome[0].shards.shards[1].endpoint == "tcp://10.0.0.1:5700");
  CHECK(newest_members(said, server_peer(0)) == "0");
  CHECK(newest_members(said, server_peer(1)) == "0");
  world.ack(0);
  world.ack(1);  // all know worker 0, but two are expected
  CHECK(world.collect().empty());

  world.worker_hello(kOne);
  world.from_server(0, proto::MembersAck{1});  // of the list before
  CHECK(newest_members(world.collect(), server_peer(1)) == "0 1");
  world.ack(0);
  CHECK(world.collect().empty());
  CHECK_FALSE(world.scheduler.started().has_value());
  world.ack(1);
  said = world.collect();
  CHECK(count<proto::Start>(said, kZero.peer) == 1);
  CHECK(count<proto::Start>(said, kOne.peer) == 1);
  CHECK(world.scheduler.started() == world.now);
  CHECK(world.tuner.heard == "join 0, join 1, start");
}

TEST_CASE("start: a late joiner starts as soon as every shard knows it, the others train on") {
  SchedulerWorld world;
  world.start();
  world.worker_hello(kTwo);
  auto said = world.collect();
  CHECK(count<proto::Welcome>(said, kTwo.peer) == 1);
  CHECK(newest_members(said, server_peer(0)) == "0 1 2");
  CHECK(world.tuner.heard == "join 2");
  world.ack(1);
  CHECK(world.collect().empty());
  world.ack(0);
  said = world.collect();
  REQUIRE(said.size() == 1);
  CHECK(count<proto::Start>(said, kTwo.peer) == 1);
}

TEST_CASE("start: a run that is stopped while it gathers does not begin when the shards answer") {
  SchedulerWorld world;
  for (std::uint32_t i = 0; i < 2; ++i) world.server_hello(i);
  world.worker_hello(kZero);
  world.worker_hello(kOne);
  world.collect();
  world.scheduler.stop(world.now, "interrupted");
  CHECK(count<proto::Stop>(world.collect(), kZero.peer) == 1);
  world.ack(0);
  world.ack(1);
  const auto said = world.collect();
  CHECK(count<proto::Start>(said, kZero.peer) == 0);
  CHECK_FALSE(world.scheduler.started());
  CHECK(world.scheduler.record().seconds == 0);
}

TEST_CASE("start: a repeated Hello is answered again, Start included, and joins nobody twice") {
  SchedulerWorld world;
  world.start();
  PlayedWorker moved = kOne;
  moved.peer = 555;  // its connection was made anew
  world.worker_hello(moved);
  const auto said = world.collect();
  REQUIRE(said.size() == 2);
  CHECK(bodies<proto::Welcome>(said, 555).at(0).you == proto::NodeId{proto::Role::Worker, 1});
  CHECK(count<proto::Start>(said, 555) == 1);
  CHECK(world.tuner.heard.empty());
  world.scheduler.stop(world.now, "enough");
  CHECK(count<proto::Stop>(world.collect(), 555) == 1);
}

TEST_CASE("start: the evaluator is welcome once there are shards, and starts with the workers") {
  SchedulerWorld world;
  const auto hello = [&] {
    world.from_evaluator(proto::Hello{"evaluator", 10, ""});
    return world.collect();
  };
  CHECK(count<proto::Heartbeat>(hello(), kEvaluatorPeer) == 1);
  world.server_hello(0);
  CHECK(count<proto::Welcome>(world.collect(), kEvaluatorPeer) == 0);
  world.server_hello(1);  // the last one: no further Hello is needed
  auto said = world.collect();
  CHECK(bodies<proto::Welcome>(said, kEvaluatorPeer).at(0).shards.shards.size() == 2);
  CHECK(count<proto::Welcome>(hello(), kEvaluatorPeer) == 1);
  world.worker_hello(kZero);
  world.worker_hello(kOne);
  world.collect();
  world.ack(0);
  world.ack(1);
  CHECK(count<proto::Start>(world.collect(), kEvaluatorPeer) == 1);
  said = hello();  // it came back
  CHECK(count<proto::Welcome>(said, kEvaluatorPeer) == 1);
  CHECK(count<proto::Start>(said, kEvaluatorPeer) == 1);
}

TEST_CASE("start: an evaluator that comes later pulls once all servers know it") {
  SchedulerWorld world;
  world.start();
  world.from_evaluator(proto::Hello{"evaluator", 10, ""});
  auto said = world.collect();
  CHECK(count<proto::Welcome>(said, kEvaluatorPeer) == 1);
  CHECK(count<proto::Start>(said, kEvaluatorPeer) == 0);
  for (const std::uint32_t server : {0u, 1u})
    CHECK(bodies<proto::Members>(said, server_peer(server)).back().evaluator == 60);
  world.ack(0);
  CHECK(count<proto::Start>(world.collect(), kEvaluatorPeer) == 0);
  world.ack(1);
  CHECK(count<proto::Start>(world.collect(), kEvaluatorPeer) == 1);
  world.ack(1);
  CHECK(count<proto::Start>(world.collect(), kEvaluatorPeer) == 0);
}

TEST_CASE("start: an evaluator that waits for it leaves when the run is stopped before") {
  SchedulerWorld world;
  for (const std::uint32_t server : {0u, 1u}) world.server_hello(server);
  world.from_evaluator(proto::Hello{"evaluator", 10, ""});
  world.worker_hello(kZero);
  world.collect();
  world.scheduler.stop(world.now, "interrupted");
  world.collect();
  world.from_evaluator(proto::Hello{"evaluator", 10, ""});  // as each second
  const auto said = world.collect();
  CHECK(count<proto::Refusal>(said, kEvaluatorPeer) == 0);
  CHECK(count<proto::Stop>(said, kEvaluatorPeer) == 1);
  world.from_evaluator(proto::Leave{"interrupted"});
  world.from_worker(kZero, proto::Leave{"interrupted"});
  CHECK(count<proto::Stop>(world.collect(), server_peer(0)) == 1);
}

// --- refusals ------------------------------------------------------------------------------------

struct Refused {
  const char* what;
  RefusalCode code;
  const char* text;
  std::function<void(SchedulerWorld&)> say;  // from peer 300
};

void say_hello(SchedulerWorld& world, proto::NodeId sender, Incarnation incarnation,
               const std::string& name, std::uint64_t parameters = 10) {
  world.hear(300, sender, incarnation, proto::Hello{name, parameters, "tcp://10.9.9.9:1"});
}

const std::vector<Refused>& refused_messages() {
  using proto::Role;
  static const std::vector<Refused> table = {
      {"one server too many", RefusalCode::ClusterFull,
       "server 'shard-2' finds no free place; those that have one are 'shard-0' at "
       "tcp://10.0.0.0:5700, 'shard-1' at tcp://10.0.0.1:5700: raise servers.count in the cluster "
       "file; or, if one of these is none of yours, use keys",
       [](auto& w) {
         say_hello(w, {Role::Server, 0}, 12345, "shard-2");
       }},
      {"a worker with another model", RefusalCode::ModelSize,
       "worker 'edge-2' has a model of 11 parameters, the cluster's has 10: use the same cluster "
       "file on every node",
       [](auto& w) {
         say_hello(w, {Role::Worker, 0}, 12345, "edge-2", 11);
       }},
      {"another scheduler", RefusalCode::BadMessage,
       "a cluster has one scheduler, and it is this one",
       [](auto& w) {
         say_hello(w, {Role::Scheduler, 0}, 12345, "scheduler");
       }},
      {"another scheduler that does not even say Hello", RefusalCode::BadMessage,
       "a cluster has one scheduler, and it is this one",
       [](auto& w) {
         w.hear(300, {Role::Scheduler, 0}, 12345, proto::Heartbeat{});
       }},
      {"a worker that never joined", RefusalCode::NotMember, "worker 9 is not a member: join first",
       [](auto& w) {
         w.hear(300, {Role::Worker, 9}, 12345, proto::Progress{});
       }},
      {"an earlier life of a member", RefusalCode::NotMember,
       "worker 1 is not a member: join first",
       [](auto& w) {
         w.hear(300, {Role::Worker, 1}, 12345, proto::Leave{"bye"});
       }},
      {"a server that never joined", RefusalCode::NotMember,
       "server 2 is of another run: restart it to join this one",
       [](auto& w) {
         w.hear(300, {Role::Server, 2}, 72, proto::Heartbeat{});
       }},
      {"a server of another run", RefusalCode::NotMember,
       "server 1 is of another run: restart it to join this one",
       [](auto& w) {
         w.hear(300, {Role::Server, 1}, 12345, proto::MembersAck{1});
       }},
      {"an evaluator of another run", RefusalCode::NotMember,
       "the evaluator is of another run: restart it",
       [](auto& w) {
         w.hear(300, {Role::Evaluator, 0}, 12345, proto::Evaluation{});
       }},
      {"a node of another cluster", RefusalCode::ClusterId,
       "worker 0 belongs to another cluster (id 0000000000000bad, ours 00000000000000c1): `name` "
       "must be the same in every node's cluster file",
       [](auto& w) {
         proto::Message message;
         message.cluster = 0xbad;
         message.sender = {Role::Worker, 0};
         message.body = proto::Hello{"edge-2", 10, ""};
         w.scheduler.on_message(w.now, 300, message);
       }},
      {"bytes that did not decode", RefusalCode::BadMessage, "not a Rubato frame",
       [](auto& w) {
         w.scheduler.on_bad_frame(300, {ErrorCode::Corrupt, "not a Rubato frame"});
       }},
  };
  return table;
}

TEST_CASE("refusals: the right code and a remedy, and the cluster is unharmed") {
  for (const auto& refused : refused_messages()) {
    CAPTURE(refused.what);
    SchedulerWorld world;
    world.start();
    refused.say(world);
    const auto said = world.collect();
    REQUIRE(said.size() == 1);
    const auto refusals = bodies<proto::Refusal>(said, 300);
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].code == refused.code);
    CHECK(refusals[0].message == refused.text);
    CHECK(world.tuner.heard.empty());
    CHECK_FALSE(world.scheduler.stopped().has_value());
    // Both members are members still.
    world.worker_hello(kTwo);
    CHECK(newest_members(world.collect(), server_peer(0)) == "0 1 2");
  }
}

TEST_CASE(
    "refusals: a node whose settings are others is told which, and one that shares them is not") {
  auto options = some_options();
  options.settings =
      "sync = bsp\nseed = 1\ntraining.batch = 32\nmodel.kind = mlp\nworkers = 2\n"
      "model.layers = 0a\n";
  SchedulerWorld world(options);
  const auto refusal = [&](proto::Role role, const std::string& settings) {
    world.hear(300, {role, 0}, 12345, proto::Hello{"pi-0", 10, "tcp://10.9.9.9:1", settings});
    const auto said = world.collect();
    const auto refusals = bodies<proto::Refusal>(said, 300);
    if (refusals.empty()) return std::string();
    CHECK(refusals[0].code == RefusalCode::OtherSettings);
    return refusals[0].message;
  };
  const std::string mend = ": use the same cluster file, --sync and --seed on every node";
  CHECK(refusal(proto::Role::Worker,
                "sync = local-sgd\nsync.local-sgd.local_steps = 40\nseed = "
                "1\ntraining.batch = 32\nmodel.kind = mlp\nworkers = 2\n") ==
        "worker 'pi-0' has sync = local-sgd; this cluster has another value" + mend);
  CHECK(refusal(proto::Role::Server,
                "sync = asp\nseed = 2\ntraining.batch = 8\nmodel.kind = "
                "cnn\nworkers = 2\n") ==
        "server 'pi-0' has sync = asp, seed = 2, training.batch = 8; this cluster has others" +
            mend);
  CHECK(refusal(proto::Role::Evaluator, "sync = bsp\n") ==
        "evaluator 'pi-0' has other settings than this cluster" + mend);
  CHECK(refusal(proto::Role::Worker, "").starts_with("worker 'pi-0' has other settings"));
  CHECK(refusal(proto::Role::Worker, "model.kind = mlp\nmodel.layers = 0b\n") ==
        "worker 'pi-0' has model.layers = 0b; this cluster has another value: copy the file that "
        "this key names to every node");
  CHECK(refusal(proto::Role::Worker, "sync = asp\nmodel.layers = 0b\n").ends_with(mend));
  CHECK(refusal(proto::Role::Server, options.settings).empty());
}

TEST_CASE("refusals: a joiner after the end is told why it ended") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "target reached");
  world.collect();
  world.worker_hello(kTwo);
  const auto refusals = bodies<proto::Refusal>(world.collect(), kTwo.peer);
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].code == RefusalCode::Stopped);
  CHECK(refusals[0].message == "the run is over: target reached");
}

TEST_CASE("end: a member whose later process is refused is not waited for") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "interrupted");
  world.worker_hello(kOne);  // repeats its Hello: it is still there
  PlayedWorker later = kZero;
  later.incarnation = 5000;
  later.peer = 300;
  world.worker_hello(later);
  CHECK(bodies<proto::Refusal>(world.collect(), later.peer).at(0).code == RefusalCode::Stopped);
  CHECK_FALSE(world.scheduler.drained());
  world.from_worker(kOne, proto::Leave{});
  CHECK(world.scheduler.drained());
  CHECK(world.log().find("worker 0 'edge-0' lost: a later process has its name") !=
        std::string::npos);
}

TEST_CASE("end: a member that joins again is told that the run is over, and counts to the end") {
  SchedulerWorld world;
  world.start();
  world.scheduler.stop(world.now, "interrupted");
  PlayedWorker again = kZero;
  ++again.incarnation;
  proto::Hello hello{again.name, 10, ""};
  hello.again = true;
  world.from_worker(again, hello);
  CHECK(bodies<proto::Stop>(world.collect(), again.peer).at(0).reason == "interrupted");
  CHECK_FALSE(world.scheduler.drained());
  world.from_worker(again, hello);  // that Stop was lost, too
  CHECK(bodies<proto::Stop>(world.collect(), again.peer).size() == 1);
  world.from_worker(kOne, proto::Leave{});
  CHECK(world.scheduler.drained());
  CHECK(world.log().find("lost") == std::string::npos);
}

TEST_CASE("end: a member that waits for others, and was not reached, is told when it asks again") {
  SchedulerWorld world;
  for (std::uint32_t i = 0; i < 2; ++i) world.server_hello(i);
  world.worker_hello(kZero);
  REQUIRE_FALSE(world.scheduler.started());
  world.scheduler.stop(world.now, "interrupted");
  world.collect();
  PlayedWorker asks = kZero;
  asks.peer = 300;  // its connection broke
  world.worker_hello(asks);
  const auto sent = world.collect();
  CHECK(bodies<proto::Stop>(sent, asks.peer).at(0).reason == "interrupted");
  CHECK(bodies<proto::Refusal>(sent, asks.peer).empty());
  CHECK_FALSE(world.scheduler.drained());
  world.from_worker(asks, proto::Leave{});
  CHECK(world.scheduler.drained());
}

SchedulerOptions with_addresses() {
  auto options = some_options();
  options.addresses = {"tcp://10.0.0.0:5700", "tcp://10.0.0.1:5700"};
  return options;
}

TEST_CASE("listed servers: one at another address is refused, and said once a minute") {
  SchedulerWorld world(with_addresses());
  for (int i = 0; i < 3; ++i) {
    say_hello(world, {proto::Role::Server, 0}, 12345, "shard-0");  // at tcp://10.9.9.9:1
    const auto refusals = bodies<proto::Refusal>(world.collect(), 300);
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].message ==
          "server 'shard-0' is at tcp://10.9.9.9:1, which servers.addresses of the cluster file "
          "does not list: --advertise names its address");
  }
  const std::string said = world.log();
  CHECK(std::ranges::count(said, '\n') == 1);
  CHECK(world.scheduler.servers() == 0);
  world.start();
  CHECK(world.scheduler.started());
}

TEST_CASE("listed servers: their addresses are their numbers, in whatever order they come") {
  SchedulerWorld world(with_addresses());
  world.server_hello(1);
  CHECK(count<proto::Heartbeat>(world.collect(), server_peer(1)) == 1);  // its turn will come
  world.server_hello(0);
  CHECK(bodies<proto::Welcome>(world.collect(), server_peer(0)).at(0).you.index == 0);
  world.server_hello(1);
  CHECK(bodies<proto::Welcome>(world.collect(), server_peer(1)).at(0).you.index == 1);
}

TEST_CASE("listed servers: who is at the address takes the place of a false one, not of a key's") {
  for (const bool keys : {false, true}) {
    CAPTURE(keys);
    SchedulerWorld world(with_addresses());
    proto::Hello first{"false", 10, "tcp://10.0.0.0:5700"};
    if (keys) first.public_key = std::string(40, 'k');
    world.hear(300, {proto::Role::Server, 0}, 12345, first);
    world.collect();
    world.server_hello(0);
    const auto said = world.collect();
    CHECK(count<proto::Welcome>(said, server_peer(0)) == (keys ? 0 : 1));
    CHECK(count<proto::Refusal>(said, server_peer(0)) == (keys ? 1 : 0));
  }
}

TEST_CASE("refusals: the cluster is full at its limit, and has room again when one leaves") {
  SchedulerWorld world(some_options(1));
  world.server_hello(0);
  for (std::uint32_t i = 0; i < kWorkersMax; ++i) {
    world.worker_hello(played(i));
    world.collect();
  }
  const auto extra = played(kWorkersMax);
  world.worker_hello(extra);
  const auto refusals = bodies<proto::Refusal>(world.collect(), extra.peer);
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].code == RefusalCode::ClusterFull);
  world.from_worker(kZero, proto::Leave{"battery"});
  world.worker_hello(extra);
  CHECK(count<proto::Welcome>(world.collect(), extra.peer) == 1);
}

// --- tuner ---------------------------------------------------------------------------------------

TEST_CASE("tuner: hears progress and evaluations, its orders become directives") {
  SchedulerWorld world;
  world.start();
  world.tuner.orders.push_back({.worker = {1}, .directive = {.commit_rate = 4}});
  world.tuner.decisions.push_back({.at = world.now, .value = 4, .reason = "a test"});
  proto::Progress progress;
  progress.steps = 7;
  progress.commits = 2;
  world.from_worker(kZero, progress);
  const auto said = world.collect();
  REQUIRE(said.size() == 1);
  CHECK(bodies<proto::Directive>(said, kOne.peer).at(0).commit_rate == 4);
  CHECK(world.log().find("tuner at 0.000 s: commit rate 4: a test\n") != std::string::npos);

  world.now = world.now + Duration::from_seconds(4);
  world.from_evaluator(proto::Evaluation{
      .age = Duration::from_seconds(1), .loss = 0.75, .accuracy = 0.5, .version = 9});
  CHECK(world.tuner.heard == "progress 0 steps 7 commits 2, evaluation 0.75 at 4 s");
}

TEST_CASE("tuner: is woken when it asked to be, once training has started") {
  SchedulerWorld world;
  world.start();
  world.tuner.wakeup = world.now + Duration::from_seconds(1.5);
  CHECK(world.scheduler.poll_wakeup() == world.tuner.wakeup);
  world.scheduler.on_wakeup(world.now + Duration::from_seconds(1));
  CHECK(world.tuner.heard.empty());
  world.scheduler.on_wakeup(world.now + Duration::from_seconds(1.5));
  CHECK(world.tuner.heard == "wakeup");
}

TEST_CASE("tuner: none at all is a model that has nothing to tune") {
  Scheduler scheduler(some_options(), nullptr);
  proto::Message hello;
  hello.cluster = kClusterId;
  for (std::uint32_t i = 0; i < 2; ++i) {
    hello.sender = {proto::Role::Server, i};
    hello.incarnation = i;
    hello.body = proto::Hello{fmt::format("shard-{}", i), 10, ""};
    scheduler.on_message({0}, server_peer(i), hello);
  }
  hello.sender = {proto::Role::Worker, 0};
  hello.body = proto::Hello{"edge-0", 10, ""};
  scheduler.on_message({0}, 100, hello);
  CHECK(count<proto::Welcome>(tests::sent(scheduler), 100) == 1);
}

// --- training loss instead of an evaluator -------------------------------------------------------

proto::Progress with_loss(double loss, std::uint64_t samples) {
  proto::Progress progress;
  progress.loss = loss;
  progress.loss_samples = samples;
  return progress;
}

TEST_CASE("without evaluator: the workers' training loss, weighted by samples, every interval") {
  auto options = some_options();
  options.evaluations = SchedulerOptions::Evaluations::Training;
  options.evaluation_interval = Duration::from_seconds(1.5);
  SchedulerWorld world(options);
  world.start();
  CHECK(world.scheduler.poll_wakeup() == world.now + options.evaluation_interval);
  world.from_worker(kZero, with_loss(1.0, 96));
  world.from_worker(kZero, with_loss(3.0, 0));  // a heartbeat without a step
  world.from_worker(kOne, with_loss(2.0, 32));
  const auto after_interval = [&] {
    world.tuner.heard.clear();
    world.pass(options.evaluation_interval, {kZero, kOne});
    const auto at = world.tuner.heard.find("evaluation");
    return at == std::string::npos ? "none" : world.tuner.heard.substr(at);
  };
  CHECK(after_interval() == "evaluation 1.25 at 2.5 s");
  CHECK(after_interval() == "none");            // nobody trained
  world.from_worker(kOne, with_loss(0.5, 10));  // the next one starts afresh
  CHECK(after_interval() == "evaluation 0.5 at 5.5 s");
}

TEST_CASE("with an evaluator the training loss is not used") {
  SchedulerWorld world;
  world.start();
  world.from_worker(kZero, with_loss(1.0, 96));
  world.tuner.heard.clear();
  world.pass(Duration::from_seconds(6), {kZero, kOne});
  CHECK(world.tuner.heard.find("evaluation") == std::string::npos);
}

}  // namespace
}  // namespace rubato::scheduler
