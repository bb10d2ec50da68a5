// Servers that fall silent, come back, or are replaced by another process; a scheduler that hears
// nobody; workers whose name a later process takes.
#include <doctest/doctest.h>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

using proto::RefusalCode;
using tests::bodies;

constexpr Incarnation kRun = 1;  // the scheduler's, of some_options()

SchedulerOptions saving() {
  auto options = some_options();
  options.save_every = kSecond * 30;
  return options;
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// The workers and the servers but `silent` say something every second.
void pass_without(SchedulerWorld& world, std::uint32_t silent, Duration time) {
  for (const Instant end = world.now + time; world.now < end;) {
    world.now = world.now + kSecond;
    world.from_server(1 - silent, proto::Heartbeat{});
    for (const auto& worker : {kZero, kOne}) world.from_worker(worker, proto::Progress{});
    world.scheduler.on_wakeup(world.now);
  }
}

// Another process says Hello in the name of server 1.
void next_life(SchedulerWorld& world, Incarnation incarnation,
               std::vector<proto::SnapshotInfo> snapshots) {
  proto::Hello hello{"shard-1", 10, "tcp://10.0.0.9:1"};
  hello.snapshots = std::move(snapshots);
  world.hear(300, {proto::Role::Server, 0}, incarnation, hello);
}

TEST_CASE("absence: a silent server is told of once, waited for, and taken back when it is heard") {
  SchedulerWorld world;
  world.start();
  pass_without(world, 1, kSecond * 10);
  const std::string line = "server 1 'shard-1' is silent for 10 s; waiting for it for up to 600 s";
  CHECK(has(world.log(), line));
  const auto said = world.collect();
  for (const auto peer : {kZero.peer, kOne.peer}) {
    const auto notices = bodies<proto::Notice>(said, peer);
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].text == line);
    CHECK_FALSE(notices[0].rejoin);
  }
  pass_without(world, 1, kSecond * 200);
  CHECK_FALSE(has(world.log(), "silent"));
  CHECK_FALSE(world.scheduler.stopped());
  world.from_server(1, proto::Heartbeat{});
  CHECK(has(world.log(), "server 1 'shard-1' is heard again after 210 s"));
  pass_without(world, 1, kSecond * 9);
  CHECK_FALSE(has(world.log(), "silent"));
  pass_without(world, 1, kSecond);
  CHECK(has(world.log(), line));
}

TEST_CASE("absence: a server that stays away ends the run with a line, and nobody ends with 0") {
  SchedulerWorld world;
  world.start();
  pass_without(world, 1, kSecond * 599);
  CHECK_FALSE(world.scheduler.stopped());
  world.collect();
  pass_without(world, 1, kSecond * 2);
  const std::string why = "server 1 'shard-1' at tcp://10.0.0.1:5700 lost: no heartbeat for 600 s";
  CHECK(world.scheduler.stopped() == why);
  const auto said = world.collect();
  for (const auto peer : {kZero.peer, kOne.peer, server_peer(0)}) {
    const auto stops = bodies<proto::Stop>(said, peer);
    REQUIRE_FALSE(stops.empty());
    CHECK(stops[0].reason == why);
    CHECK(stops[0].failed);
  }
}

TEST_CASE("absence: a scheduler that hears nobody is the one cut off, and declares nobody lost") {
  SchedulerWorld world;
  world.start();
  world.pass(kSecond, {kZero, kOne});
  world.log();
  world.pass_in_silence(kSecond * 300);
  const std::string log = world.log();
  CHECK(has(log, "hears no node at all for "));
  CHECK_FALSE(has(log, "lost:"));
  CHECK_FALSE(has(log, "shard-"));
  // The link heals. Not all are heard at once.
  world.from_worker(kZero, proto::Progress{});
  world.scheduler.on_wakeup(world.now);
  CHECK(has(world.log(), "hears nodes again"));
  world.pass(kSecond * 9, {kZero});
  CHECK(world.scheduler.record().workers[1].fate == "member");
  world.pass(kSecond * 3, {kZero});
  CHECK(world.scheduler.record().workers[1].fate == "lost");
  CHECK_FALSE(world.scheduler.stopped());
}

TEST_CASE("absence: a scheduler that nobody speaks to for the limit gives up") {
  SchedulerWorld world;
  world.start();
  world.pass_in_silence(kSecond * 590);
  CHECK_FALSE(world.scheduler.stopped());
  world.pass_in_silence(kSecond * 20);
  CHECK(world.scheduler.stopped() == "no node was heard for 600 s");
}

TEST_CASE("end: a server that was silent during the last pull is heard again, and told once more") {
  SchedulerWorld world;
  world.start();
  world.from_evaluator(proto::Heartbeat{});
  world.scheduler.stop(world.now, "target reached");
  for (const auto& worker : {kZero, kOne})
    world.from_worker(worker, proto::Leave{"target reached"});
  pass_without(world, 1, kSecond * 12);
  CHECK(has(world.log(), "server 1 'shard-1' is silent: the parameters of the end cannot be"));
  world.collect();
  world.from_server(1, proto::Heartbeat{});
  CHECK(has(world.log(), "server 1 'shard-1' is heard again"));
  CHECK(count<proto::Stop>(world.collect(), server_peer(1)) == 1);
  CHECK_FALSE(world.scheduler.over());
  for (const std::uint32_t i : {0, 1}) world.from_server(i, proto::Leave{"target reached"});
  CHECK(world.scheduler.over());
}

TEST_CASE("snapshots: ordered at the start and at every interval, from servers that are there") {
  SchedulerWorld world(saving());
  for (std::uint32_t i = 0; i < 2; ++i) world.server_hello(i);
  for (std::uint32_t i = 0; i < 2; ++i) world.worker_hello(played(i));
  world.collect();
  for (std::uint32_t i = 0; i < 2; ++i) world.ack(i);
  const auto numbers = [&](std::uint32_t server) {
    std::string text;
    for (const auto& order : bodies<proto::Save>(world.collect(), server_peer(server)))
      text += fmt::format("{} ", order.number);
    return text;
  };
  CHECK(numbers(0) == "1 ");
  world.pass(kSecond * 29, {kZero, kOne});
  CHECK(numbers(0).empty());
  world.pass(kSecond * 31, {kZero, kOne});
  CHECK(numbers(1) == "2 3 ");
  pass_without(world, 1, kSecond * 31);
  CHECK(numbers(1).empty());
}

TEST_CASE("snapshots: an order says which clock of its server was heard, and how long ago") {
  SchedulerWorld world(saving());
  world.start();
  world.pass(kSecond * 29, {kZero, kOne});
  world.collect();
  world.from_server(0, proto::Heartbeat{.echo = {}, .clock = {7'000}});
  world.now = world.now + kSecond;
  world.scheduler.on_wakeup(world.now);
  const auto orders = bodies<proto::Save>(world.collect(), server_peer(0));
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].clock == Instant{7'000});
  CHECK(orders[0].ago == kSecond);
}

TEST_CASE("snapshots: without them nobody is asked for any") {
  SchedulerWorld world;
  world.start();
  world.pass(kSecond * 100, {kZero, kOne});
  CHECK(count<proto::Save>(world.collect(), server_peer(0)) == 0);
}

TEST_CASE("replaced: another process goes on from the newest snapshot of this run, at once") {
  SchedulerWorld world(saving());
  world.start();
  world.from_evaluator(proto::Hello{"evaluator", 10, ""});
  world.pass(kSecond * 42, {kZero, kOne});
  proto::Progress progress;
  progress.commits = 25;
  world.from_worker(kZero, progress);
  progress.commits = 15;
  world.from_worker(kOne, progress);
  world.collect();
  world.log();
  world.tuner.heard.clear();
  next_life(world, 7000, {{99, 5, 3}, {kRun, 1, 2}, {kRun, 2, 28}});
  const std::string line =
      "server 1 'shard-1' is back from its snapshot of 12 s ago: 12 commits lost";
  CHECK(world.log() == line + "\n");
  const auto said = world.collect();
  const auto welcome = bodies<proto::Welcome>(said, 300);
  REQUIRE(welcome.size() == 1);
  CHECK(welcome[0].you == proto::NodeId{proto::Role::Server, 1});
  CHECK(welcome[0].range == ElementRange{5, 10});
  CHECK(welcome[0].snapshot == 2);
  CHECK(newest_members(said, 300).empty());  // a list without members
  for (const auto peer : {kZero.peer, kOne.peer}) {
    const auto notices = bodies<proto::Notice>(said, peer);
    REQUIRE(notices.size() == 1);
    CHECK(notices[0].text == line);
    CHECK(notices[0].rejoin);
  }
  CHECK(count<proto::Welcome>(said, kEvaluatorPeer) == 0);  // it could not answer a pull yet
  const std::uint64_t epoch = bodies<proto::Members>(said, 300).at(0).epoch;
  world.hear(300, {proto::Role::Server, 1}, 7000, proto::MembersAck{epoch});
  const auto moved = bodies<proto::Welcome>(world.collect(), kEvaluatorPeer);
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].shards.shards[1].endpoint == "tcp://10.0.0.9:1");

  // A worker joins again: it keeps its number and its totals, and the tuner hears nothing.
  PlayedWorker again = kZero;
  ++again.incarnation;
  proto::Hello hello{again.name, 10, ""};
  hello.again = true;
  world.from_worker(again, hello);
  const auto answer = world.collect();
  CHECK(bodies<proto::Welcome>(answer, again.peer).at(0).you ==
        proto::NodeId{proto::Role::Worker, 0});
  const auto lists = bodies<proto::Members>(answer, server_peer(0));
  REQUIRE(lists.size() == 1);
  CHECK(lists[0].members == std::vector<proto::Member>{{WorkerId{0}, again.incarnation}});
  CHECK(newest_members(answer, 300) == "0");
  world.ack(0);
  CHECK(count<proto::Start>(world.collect(), again.peer) == 0);
  world.hear(300, {proto::Role::Server, 1}, 7000, proto::MembersAck{lists[0].epoch});
  CHECK(count<proto::Start>(world.collect(), again.peer) == 1);
  progress.commits = 26;
  world.from_worker(again, progress);
  CHECK(world.tuner.heard == "progress 0 steps 0 commits 26");
  CHECK(world.scheduler.record().commits == 41);
  CHECK(world.scheduler.record().workers.size() == 2);

  // The other one has missed the word: it is told again.
  world.from_worker(kOne, proto::Heartbeat{});
  const auto notices = bodies<proto::Notice>(world.collect(), kOne.peer);
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].rejoin);

  // The old process was only frozen.
  world.from_server(1, proto::Heartbeat{});
  const auto refused = bodies<proto::Refusal>(world.collect(), server_peer(1));
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].code == RefusalCode::NameTaken);
  CHECK(refused[0].message ==
        "server 1 was replaced by a later process of its name: this one ends");
}

TEST_CASE("replaced: before the start a server needs no snapshot, and workers get the new map") {
  SchedulerWorld world(saving());
  world.server_hello(0);
  world.server_hello(1);
  world.worker_hello(kZero);
  world.collect();
  next_life(world, 7000, {});
  const auto said = world.collect();
  CHECK(bodies<proto::Welcome>(said, 300).at(0).snapshot == 0);
  CHECK(bodies<proto::Notice>(said, kZero.peer).at(0).rejoin);
  world.worker_hello(kZero);  // it had not begun: the same life says Hello
  CHECK(bodies<proto::Welcome>(world.collect(), kZero.peer).at(0).shards.shards[1].endpoint ==
        "tcp://10.0.0.9:1");
}

TEST_CASE("replaced: until the second snapshot a shard may begin anew, and a line says so") {
  SchedulerWorld world(saving());
  world.start();
  proto::Progress progress;
  progress.commits = 25;
  world.from_worker(kZero, progress);
  world.log();
  next_life(world, 7000, {});
  CHECK(world.log() == "server 1 'shard-1' is back without a snapshot: 25 commits lost\n");
  CHECK(bodies<proto::Welcome>(world.collect(), 300).at(0).snapshot == 0);
}

TEST_CASE("replaced: who has no snapshot of this run is refused, and the run goes on") {
  for (const bool saves : {true, false}) {
    SchedulerWorld world(saves ? saving() : some_options());
    world.start();
    world.from_server(1, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
    world.collect();
    next_life(world, 7000, {{99, 1, 5}});
    const auto refused = bodies<proto::Refusal>(world.collect(), 300);
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].code == RefusalCode::NameTaken);
    CHECK(has(refused[0].message, saves ? "with the --state directory" : "durability"));
    world.from_server(1, proto::Heartbeat{});
    CHECK(world.collect().empty());
    CHECK_FALSE(world.scheduler.stopped());
  }
  // Where none was told of, the shard begins anew, however many were ordered since.
  SchedulerWorld world(saving());
  world.start();
  world.pass(kSecond * 100, {kZero, kOne});
  world.collect();
  next_life(world, 7000, {});
  CHECK(bodies<proto::Welcome>(world.collect(), 300).at(0).snapshot == 0);
  CHECK(has(world.log(), "is back without a snapshot"));
}

TEST_CASE("replaced: a worker's name goes to a later process at once, and the earlier one ends") {
  SchedulerWorld world;
  world.start();
  PlayedWorker twin{2, kZero.name, 12345, 400};
  world.worker_hello(twin);
  auto said = world.collect();
  CHECK(bodies<proto::Welcome>(said, 400).at(0).you == proto::NodeId{proto::Role::Worker, 2});
  CHECK(newest_members(said, server_peer(0)) == "1 2");
  CHECK(world.tuner.heard == "leave 0, join 2");
  world.from_worker(kZero, proto::Progress{});
  said = world.collect();
  const auto refused = bodies<proto::Refusal>(said, kZero.peer);
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].code == RefusalCode::NameTaken);
  CHECK(refused[0].message ==
        "worker 0 'edge-0' was replaced by a later process of its name: this one ends");
  CHECK(world.scheduler.record().workers[0].fate == "lost");
  // A shard told it first that it is no member.
  PlayedWorker next = kZero;
  ++next.incarnation;
  world.worker_hello(next);
  CHECK(bodies<proto::Refusal>(world.collect(), kZero.peer).at(0).code == RefusalCode::NameTaken);
  CHECK(world.scheduler.record().workers[2].fate == "member");
}

TEST_CASE("replaced: the only worker's next life goes on with the run") {
  SchedulerWorld world(some_options(2, 1));
  world.start(1);
  world.worker_hello({1, kZero.name, 12345, 400});
  CHECK_FALSE(world.scheduler.stopped());
  CHECK(newest_members(world.collect(), server_peer(0)) == "1");
}

// A run with snapshots, whose scheduler's process ends, and another goes on.
struct Returned : SchedulerWorld {
  Returned() : SchedulerWorld(saving()) {
    start();
    pass(kSecond * 65, {kZero, kOne});  // snapshots 1, 2 and 3 were ordered
    collect();
    log();
    now = now + kSecond * 5;
    scheduler.on_return(now);
  }
  void next_life(std::uint32_t index, std::vector<proto::SnapshotInfo> snapshots) {
    proto::Hello hello{fmt::format("shard-{}", index), 10, "tcp://10.0.0.9:1"};
    hello.snapshots = std::move(snapshots);
    hear(300 + index, {proto::Role::Server, 0}, 500 + index, hello);
  }
};

TEST_CASE("return: nobody is spoken to before it is heard, and then told what it may have missed") {
  Returned world;
  world.tuner.orders.push_back({WorkerId{1}, {.commit_rate = 7}});
  world.from_worker(kZero, proto::Progress{});
  world.scheduler.on_wakeup(world.now);
  auto said = world.collect();
  for (const auto& out : said) CHECK(out.to == kZero.peer);
  proto::PeerId elsewhere = 4711;
  world.hear(elsewhere, {proto::Role::Worker, kOne.index}, kOne.incarnation, proto::Progress{});
  said = world.collect();
  const auto orders = bodies<proto::Directive>(said, elsewhere);
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].commit_rate == 7);
  world.hear(elsewhere, {proto::Role::Worker, kOne.index}, kOne.incarnation, proto::Progress{});
  CHECK(count<proto::Directive>(world.collect(), elsewhere) == 0);
}

TEST_CASE("return: servers that live go on, and one that does not takes its newest snapshot") {
  Returned world;
  world.next_life(1, {{kRun, 2, 10}, {kRun, 3, 20}});
  CHECK(count<proto::Welcome>(world.collect(), 301) == 0);  // is server 0 there?
  world.from_server(0, proto::Heartbeat{});
  const auto welcomes = bodies<proto::Welcome>(world.collect(), 301);
  REQUIRE(welcomes.size() == 1);
  CHECK(welcomes[0].snapshot == 3);
}

TEST_CASE("return: servers that are all new go back to one snapshot that all of them have") {
  Returned world;
  world.next_life(0, {{kRun, 1, 5}, {kRun, 2, 10}});
  world.next_life(1, {{kRun, 2, 11}, {kRun, 3, 20}});
  const auto said = world.collect();
  for (const proto::PeerId peer : {300, 301}) {
    const auto welcomes = bodies<proto::Welcome>(said, peer);
    REQUIRE(welcomes.size() == 1);
    CHECK(welcomes[0].snapshot == 2);
  }
  CHECK(has(world.log(), "server 1 'shard-1' is back from its snapshot of "));
}

TEST_CASE("return: servers that had a common snapshot and have none are refused") {
  Returned world;
  for (std::uint32_t i = 0; i < 2; ++i)
    world.from_server(i, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 3});
  world.scheduler.on_return(world.now);
  world.collect();
  world.next_life(0, {{kRun, 2, 5}});
  world.next_life(1, {{kRun, 3, 20}});
  const auto said = world.collect();
  for (const proto::PeerId peer : {300, 301}) {
    const auto refusals = bodies<proto::Refusal>(said, peer);
    REQUIRE(refusals.size() == 1);
    CHECK(refusals[0].code == RefusalCode::NameTaken);
  }
}

TEST_CASE("return: beside one that lives, and with journals, each goes on from its own newest") {
  {
    Returned world;
    world.from_server(0, proto::Heartbeat{});
    world.next_life(1, {{kRun, 2, 5}});
    CHECK(bodies<proto::Welcome>(world.collect(), 301).at(0).snapshot == 2);
  }
  auto options = saving();
  options.journal = true;
  SchedulerWorld world(options);
  world.start();
  world.pass(kSecond * 65, {kZero, kOne});
  world.collect();
  world.scheduler.on_return(world.now);
  for (std::uint32_t i = 0; i < 2; ++i) {
    proto::Hello hello{fmt::format("shard-{}", i), 10, "tcp://10.0.0.9:1"};
    hello.snapshots = {{kRun, 2 + i, 10}};
    world.hear(300 + i, {proto::Role::Server, 0}, 500 + i, hello);
  }
  const auto said = world.collect();
  for (std::uint32_t i = 0; i < 2; ++i)
    CHECK(bodies<proto::Welcome>(said, 300 + i).at(0).snapshot == 2 + i);
}

TEST_CASE("return: servers that never had a common snapshot begin anew together") {
  Returned world;
  world.from_server(0, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 2});
  world.scheduler.on_return(world.now);
  world.collect();
  world.next_life(0, {{kRun, 2, 5}});
  world.next_life(1, {});
  const auto said = world.collect();
  for (const proto::PeerId peer : {300, 301})
    CHECK(bodies<proto::Welcome>(said, peer).at(0).snapshot == 0);
}

// A scheduler whose journal has lost the start of the run, and servers that come with these.
struct LostStart : SchedulerWorld {
  LostStart() : SchedulerWorld(saving()) {}
  void comes(std::uint32_t index, std::vector<proto::SnapshotInfo> snapshots) {
    proto::Hello hello{fmt::format("shard-{}", index), 10, fmt::format("tcp://10.0.0.{}:1", index)};
    hello.snapshots = std::move(snapshots);
    hear(server_peer(index), {proto::Role::Server, 0}, 70 + index, hello);
  }
  // The snapshots that the two servers are told to begin with; empty: none was told.
  std::vector<std::uint64_t> welcomed() {
    std::vector<std::uint64_t> numbers;
    const auto said = collect();
    for (std::uint32_t i = 0; i < 2; ++i)
      for (const auto& welcome : bodies<proto::Welcome>(said, server_peer(i)))
        numbers.push_back(welcome.snapshot);
    return numbers;
  }
};

TEST_CASE("lost start: servers that have snapshots of the run go on from the newest of all") {
  LostStart world;
  world.comes(0, {{kRun, 2, 10}, {kRun, 3, 20}});
  CHECK(world.welcomed().empty());
  world.comes(0, {{kRun, 2, 10}, {kRun, 3, 20}});  // it asks again, each second
  CHECK(world.welcomed().empty());
  world.comes(1, {{kRun, 1, 5, 5}, {kRun, 2, 11, 5}});
  CHECK(world.welcomed() == std::vector<std::uint64_t>{2, 2});
  CHECK(has(world.log(), "server 0 'shard-0' is back from its snapshot"));
  world.comes(1, {{kRun, 1, 5, 5}, {kRun, 2, 11, 5}});
  CHECK(world.welcomed() == std::vector<std::uint64_t>{2});
  // Training starts as ever, and the numbers of snapshots go on.
  world.start();
  CHECK(world.scheduler.started());
  world.pass(kSecond * 31, {kZero, kOne});
  const auto orders = bodies<proto::Save>(world.collect(), server_peer(0));
  REQUIRE_FALSE(orders.empty());
  CHECK(orders.back().number >= 4);
}

TEST_CASE("lost start: who waits for the others waits on when the scheduler comes back") {
  LostStart world;
  world.comes(0, {{kRun, 2, 10}});
  CHECK(world.welcomed().empty());
  world.scheduler.on_return(world.now);
  world.comes(0, {{kRun, 2, 10}});
  CHECK(world.welcomed().empty());
  world.comes(1, {{kRun, 2, 11, 5}});
  CHECK(world.welcomed() == std::vector<std::uint64_t>{2, 2});
}

TEST_CASE("lost start: servers take the places of which their snapshots are") {
  LostStart world;
  world.comes(0, {{kRun, 2, 10, 5}});
  world.comes(1, {{kRun, 2, 11, 0}});
  const auto said = world.collect();
  const auto first = bodies<proto::Welcome>(said, server_peer(0));
  const auto second = bodies<proto::Welcome>(said, server_peer(1));
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  CHECK(first[0].you.index == 1);
  CHECK(first[0].range.begin == 5);
  CHECK(second[0].you.index == 0);
  CHECK(first[0].snapshot == 2);
}

TEST_CASE("lost start: where a server has nothing of the run, all begin anew, and a line says so") {
  for (const bool first : {false, true}) {
    CAPTURE(first);
    LostStart world;
    if (first) world.comes(0, {});
    world.comes(1, {{kRun, 1, 10}});
    if (!first) world.comes(0, {});
    CHECK(world.welcomed() == std::vector<std::uint64_t>{0, 0});
    CHECK(has(world.log(), "has snapshots of this run, but not one that all servers have"));
  }
}

TEST_CASE("lost start: two servers with snapshots of one place begin anew, and are heard later") {
  LostStart world;
  for (const std::uint32_t server : {0u, 1u}) world.comes(server, {{kRun, 2, 10}});
  CHECK(world.welcomed() == std::vector<std::uint64_t>{0, 0});
  world.scheduler.on_return(world.now);
  for (const std::uint32_t server : {0u, 1u}) world.from_server(server, proto::Heartbeat{});
  world.start();
  CHECK(world.scheduler.started());
}

TEST_CASE("lost start: snapshots of another run are nothing to wait for") {
  LostStart world;
  world.comes(0, {{kRun + 1, 2, 10}});
  CHECK(world.welcomed() == std::vector<std::uint64_t>{0});
}

TEST_CASE("return: new processes of all workers may take their time, and know earlier steps") {
  Returned world;
  proto::Progress made;
  made.steps = 40;
  world.from_worker(kOne, made);
  world.scheduler.on_return(world.now);
  CHECK(world.scheduler.awaits_workers());
  world.pass(kSecond * 300, {});
  CHECK_FALSE(world.scheduler.stopped());
  CHECK(world.scheduler.members() == 2);
  world.collect();
  const PlayedWorker next{2, kOne.name, 2000, 400};
  world.worker_hello(next);
  CHECK_FALSE(world.scheduler.awaits_workers());
  const auto welcomes = bodies<proto::Welcome>(world.collect(), next.peer);
  REQUIRE(welcomes.size() == 1);
  CHECK(welcomes[0].steps == 40);
  world.pass(kSecond * 11, {next});
  CHECK(world.scheduler.members() == 1);  // the other did not come
  CHECK_FALSE(world.scheduler.stopped());
}

TEST_CASE(
    "return: workers that do not come are lost after one limit, and the run ends after another") {
  Returned world;
  world.pass(kSecond * 599, {});
  CHECK_FALSE(world.scheduler.stopped());
  world.pass(kSecond * 13, {});
  CHECK(world.scheduler.members() == 0);
  CHECK_FALSE(world.scheduler.stopped());
  world.pass(kSecond * 601, {});
  CHECK(world.scheduler.stopped() == "no worker is left, and none came for 600 s");
}

TEST_CASE("snapshots: an order names the newest that every server has on disk") {
  SchedulerWorld world(saving());
  world.start();
  world.from_server(0, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
  world.pass(kSecond * 31, {kZero, kOne});
  const auto orders = [&] { return bodies<proto::Save>(world.collect(), server_peer(0)); };
  auto said = orders();
  REQUIRE(said.size() == 1);
  CHECK(said[0].keep == 0);
  world.from_server(0, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 2});
  world.from_server(1, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
  world.pass(kSecond * 30, {kZero, kOne});
  said = orders();
  REQUIRE(said.size() == 1);
  CHECK(said[0].keep == 1);
}

TEST_CASE("snapshots: a server that wants one is given an order of all at once") {
  SchedulerWorld world(saving());
  world.start();
  for (std::uint32_t i = 0; i < 2; ++i)
    world.from_server(i, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
  world.collect();
  proto::Heartbeat beat{.echo = {}, .clock = {}, .saved = 1};
  beat.wants_snapshot = true;
  world.from_server(1, beat);
  const auto said = world.collect();
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto orders = bodies<proto::Save>(said, server_peer(i));
    REQUIRE(orders.size() == 1);
    CHECK(orders[0].number == 2);
  }
}

TEST_CASE("snapshots: an orderly end orders one of the last instant, unless a shard is gone") {
  for (const bool gone : {false, true}) {
    SchedulerWorld world(saving());
    world.start();
    world.collect();
    gone ? world.scheduler.stop_without_parameters(world.now, "server 1 is lost")
         : world.scheduler.stop(world.now, "interrupted");
    for (const auto& worker : {kZero, kOne}) world.from_worker(worker, proto::Leave{"stop"});
    for (std::uint32_t i = 0; i < 2; ++i)
      world.from_server(i, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
    const auto said = world.collect();
    for (std::uint32_t i = 0; i < 2; ++i) {
      const auto orders = bodies<proto::Save>(said, server_peer(i));
      REQUIRE(orders.size() == (gone ? 0 : 1));
      if (!gone) CHECK(orders[0].number == 2);
      CHECK((count<proto::Stop>(said, server_peer(i)) > 0) == gone);
    }
  }
}

TEST_CASE("return: a run that ends at once waits for the servers that have not spoken") {
  Returned world;
  world.scheduler.stop(world.now, "target reached");
  for (const auto& worker : {kZero, kOne}) world.from_worker(worker, proto::Leave{"stop"});
  CHECK(count<proto::Stop>(world.collect(), server_peer(1)) == 0);
  for (const std::uint32_t i : {1, 0}) {
    CHECK(count<proto::Save>(world.collect(), server_peer(1)) == 0);
    world.from_server(i, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 1});
  }
  const auto said = world.collect();
  for (const std::uint32_t i : {1, 0}) {
    const auto orders = bodies<proto::Save>(said, server_peer(i));
    REQUIRE(orders.size() == 1);
    CHECK_FALSE(world.scheduler.over());
    world.from_server(i, proto::Heartbeat{.echo = {}, .clock = {}, .saved = orders[0].number});
  }
  for (const std::uint32_t i : {1, 0}) world.from_server(i, proto::Leave{"target reached"});
  CHECK(world.scheduler.over());
}

TEST_CASE("return: numbers of snapshots that the journal has lost are not given again") {
  Returned world;
  for (std::uint32_t i = 0; i < 2; ++i)
    world.from_server(i, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 5});
  world.pass(kSecond * 31, {kZero, kOne});
  const auto orders = bodies<proto::Save>(world.collect(), server_peer(0));
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].number == 6);
  CHECK(orders[0].keep == 5);
}

TEST_CASE("return: after the end all who are left are told, and the run is over") {
  Returned world;
  world.scheduler.stop(world.now, "target reached");
  world.collect();
  world.scheduler.on_return(world.now);
  world.from_worker(kZero, proto::Progress{});
  world.from_server(0, proto::Heartbeat{});
  CHECK(count<proto::Stop>(world.collect(), kZero.peer) >= 1);
  world.pass_in_silence(kSecond * 9);
  CHECK_FALSE(world.scheduler.over());
  world.pass_in_silence(kSecond * 11);
  CHECK(world.scheduler.over());
  const auto said = world.collect();
  CHECK(count<proto::Stop>(said, server_peer(0)) == 1);
  CHECK(count<proto::Stop>(said, server_peer(1)) == 0);  // not heard
}

}  // namespace
}  // namespace rubato::scheduler
