// Before the start: for whom the run waits, who hears it, and a worker that looks for the servers
// before it joins. And how a run stands, for those who ask.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

using tests::bodies;

// Three listed workers.
SchedulerOptions listed_options() {
  auto options = some_options(2, 3);
  options.listed = {"edge-0", "edge-1", "edge-2"};
  return options;
}

// What peer `to` was told since the last call, one line each.
std::string notices(SchedulerWorld& world, proto::PeerId to) {
  std::string all;
  for (const auto& notice : bodies<proto::Notice>(world.collect(), to)) all += notice.text + "\n";
  return all;
}

// Seconds pass; the first servers and these workers say that they are there.
void pass(SchedulerWorld& world, int seconds, std::uint32_t servers,
          const std::vector<PlayedWorker>& workers = {}) {
  for (int i = 0; i < seconds; ++i) {
    world.now = world.now + kSecond;
    for (std::uint32_t index = 0; index < servers; ++index)
      world.from_server(index, proto::Heartbeat{});
    for (const auto& worker : workers) world.from_worker(worker, proto::Progress{});
    world.scheduler.on_wakeup(world.now);
  }
}

proto::Hello look(const PlayedWorker& worker, const std::string& trouble = {}) {
  proto::Hello hello{worker.name, 10, ""};
  hello.looks = true;
  hello.trouble = trouble;
  return hello;
}

TEST_CASE("waits: 5 s after a change a line names who is missing, and all who are there hear it") {
  SchedulerWorld world(listed_options());
  world.scheduler.announce_waits(world.now);
  world.server_hello(0);
  pass(world, 4, 1);
  CHECK(notices(world, server_peer(0)).empty());
  world.log();
  pass(world, 1, 1);
  CHECK(world.log() == "waiting for 1 server (1 of 2 joined)\n");
  CHECK(notices(world, server_peer(0)) == "waiting for 1 server (1 of 2 joined)\n");

  world.server_hello(1);
  world.worker_hello(kOne);
  world.log();
  pass(world, 5, 2, {kOne});
  const std::string line = "waiting for edge-0, edge-2 (1 of 3 workers joined)\n";
  CHECK(world.log() == line);
  const auto said = world.collect();
  for (const auto peer : {server_peer(0), server_peer(1), kOne.peer}) {
    CAPTURE(peer);
    REQUIRE(count<proto::Notice>(said, peer) == 1);
    const auto notice = bodies<proto::Notice>(said, peer)[0];
    CHECK(notice.text + "\n" == line);
    CHECK_FALSE(notice.rejoin);
  }
}

TEST_CASE("waits: while nothing changes, the same line comes more and more rarely") {
  SchedulerWorld world(listed_options());
  world.scheduler.announce_waits(world.now);
  for (const std::uint32_t index : {0u, 1u}) world.server_hello(index);
  world.worker_hello(kZero);
  world.log();
  std::vector<int> said;  // seconds
  for (int second = 1; second <= 3600; ++second) {
    pass(world, 1, 2, {kZero});
    if (!world.log().empty()) said.push_back(second);
  }
  REQUIRE(said.size() > 5);
  CHECK(said.size() < 20);
  said.resize(5);
  CHECK(said == std::vector<int>{5, 15, 35, 75, 155});
  // Somebody joins: the line is another one.
  world.worker_hello(kOne);
  world.log();
  pass(world, 5, 2, {kZero, kOne});
  CHECK(world.log() == "waiting for edge-2 (2 of 3 workers joined)\n");
}

TEST_CASE("waits: where any may join the line has a number, and after the start there is none") {
  SchedulerWorld world(some_options(2, 2));
  world.scheduler.announce_waits(world.now);
  for (const std::uint32_t index : {0u, 1u}) world.server_hello(index);
  world.worker_hello(kZero);
  world.log();
  pass(world, 5, 2, {kZero});
  CHECK(world.log() == "waiting for 1 worker (1 of 2 joined)\n");
  world.start();
  world.log();
  world.pass(kSecond * 20, {kZero, kOne});
  CHECK(world.log().empty());
}

TEST_CASE("waits: nobody who does not ask for the lines gets them") {
  SchedulerWorld world(listed_options());
  for (const std::uint32_t index : {0u, 1u}) world.server_hello(index);
  world.worker_hello(kZero);
  world.log();
  world.pass(kSecond * 20, {kZero});
  CHECK(world.log().empty());
}

TEST_CASE("waits: a worker that looks is told where the servers are, and is no member") {
  SchedulerWorld world(listed_options());
  world.scheduler.announce_waits(world.now);
  world.from_worker(kZero, look(kZero));
  CHECK(count<proto::Heartbeat>(world.collect(), kZero.peer) == 1);
  for (const std::uint32_t index : {0u, 1u}) world.server_hello(index);
  world.log();
  world.collect();
  world.from_worker(kZero, look(kZero, "cannot reach server 1 at tcp://10.0.0.1:5700"));
  const auto welcomes = bodies<proto::Welcome>(world.collect(), kZero.peer);
  REQUIRE(welcomes.size() == 1);
  CHECK(welcomes[0].shards.shards.size() == 2);
  CHECK(welcomes[0].looks);
  CHECK(world.scheduler.members() == 0);
  const std::string line = "worker 'edge-0' cannot reach server 1 at tcp://10.0.0.1:5700\n";
  CHECK(world.log() == line);
  for (const std::uint32_t fill : {0u, 5000u, proto::kFillMax}) {
    world.scheduler.on_message(world.now, 77,
                               {.cluster = 0,
                                .sender = {proto::Role::Worker, 0},
                                .incarnation = 5,
                                .body = proto::AskStatus{fill},
                                .payload = {}});
    const auto answers = bodies<proto::Status>(world.collect(), 77);
    REQUIRE(answers.size() == 1);
    CHECK(answers[0].text.size() >= fill);
    CHECK(answers[0].text.size() <= std::max(fill, 5000u));
    const auto troubles = nlohmann::json::parse(answers[0].text)["troubles"];
    REQUIRE(troubles.size() == 1);
    CHECK(troubles[0]["worker"] == "edge-0");
    CHECK(troubles[0]["text"] == "cannot reach server 1 at tcp://10.0.0.1:5700");
  }
  world.from_worker(kZero, look(kZero, "cannot reach server 1 at tcp://10.0.0.1:5700"));
  CHECK(world.log().empty());  // said
  world.collect();
  pass(world, 5, 2);
  CHECK(notices(world, kZero.peer) ==
        "waiting for edge-0, edge-1, edge-2 (0 of 3 workers joined)\n");
}

TEST_CASE("status: anybody is answered, and nothing changes") {
  SchedulerWorld world;
  world.start();
  proto::Progress progress;
  progress.steps = 40;
  progress.commits = 4;
  progress.loss = 0.5;
  progress.loss_samples = 10;
  progress.compute = kSecond * 3;
  progress.wait = kSecond;
  for (int second = 0; second < 6; ++second) {
    world.now = world.now + kSecond;
    for (const std::uint32_t index : {0u, 1u}) world.from_server(index, proto::Heartbeat{});
    for (const auto& worker : {kZero, kOne}) world.from_worker(worker, progress);
  }
  world.collect();
  const auto wakeup = world.scheduler.poll_wakeup();
  const proto::Message question{.cluster = 0,
                                .sender = {proto::Role::Worker, 0},
                                .incarnation = 5,
                                .body = proto::AskStatus{},
                                .payload = {}};
  CHECK_FALSE(world.scheduler.on_message(world.now, 77, question));
  const auto said = world.collect();
  REQUIRE(said.size() == 1);
  const auto answers = bodies<proto::Status>(said, 77);
  REQUIRE(answers.size() == 1);
  const auto status = nlohmann::json::parse(answers[0].text);
  CHECK(answers[0].text.size() < proto::kFillMax);
  CHECK(status["state"] == "training");
  CHECK(status["steps"] == 80);
  CHECK(status["servers"].size() == 2);
  REQUIRE(status["workers"].size() == 2);
  CHECK(status["workers"][0]["name"] == "edge-0");
  CHECK(status["workers"][0]["waiting_share"] == 0.25);
  CHECK(status["path"] == "computing 100.0 %");
  CHECK(status["workers"][0]["loss"] == 0.5);
  CHECK(status["workers"][0]["steps_per_second"].get<double>() > 0);
  CHECK(world.scheduler.poll_wakeup() == wakeup);

  // A flood costs a few answers in each interval.
  for (int i = 0; i < 1000; ++i) world.scheduler.on_message(world.now, 77, question);
  CHECK(world.collect().size() < 20);
  world.now = world.now + kSecond;
  world.scheduler.on_message(world.now, 77, question);
  CHECK(world.collect().size() == 1);
}

TEST_CASE("status: of so many workers that not all fit into a message, the first are told") {
  SchedulerWorld world(some_options(1, 1));
  world.server_hello(0);
  for (std::uint32_t i = 0; i < 300; ++i) {
    auto worker = played(i);
    worker.name = std::string(1000, '\x01') + worker.name;
    world.worker_hello(worker);
  }
  const std::string text = world.scheduler.status(world.now);
  CHECK(text.size() < proto::kStatusTextMax);
  const auto status = nlohmann::json::parse(text);
  CHECK(status["workers"].size() + status["workers_left_out"].get<std::size_t>() == 300);
}

}  // namespace
}  // namespace rubato::scheduler
