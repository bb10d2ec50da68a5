// The scheduler names a worker that tells the initial values of an own model. These tests say which
// one, and when. They lose it, or a server, in between.
#include <doctest/doctest.h>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler::seed_tests {
namespace {

using tests::bodies;

SchedulerOptions seeds(std::uint32_t workers = 2) {
  auto options = some_options(2, workers);
  options.seeds = true;
  options.order = {"edge-1", "edge-0", "edge-2"};
  return options;
}

// "1 of 2": the newest list names worker 2 the first time. "-": there is none.
std::string named(const std::vector<proto::ToPeer>& messages) {
  const auto lists = bodies<proto::Members>(messages, server_peer(0));
  if (lists.empty()) return "-";
  return fmt::format("{} of {}", lists.back().seeding, lists.back().seeder.value);
}

struct SeedingWorld : SchedulerWorld {
  explicit SeedingWorld(const SchedulerOptions& options = seeds()) : SchedulerWorld(options) {}

  std::vector<proto::ToPeer> collect() {
    auto messages = SchedulerWorld::collect();
    for (std::uint32_t i = 0; i < 2; ++i)
      for (const auto& list : bodies<proto::Members>(messages, server_peer(i)))
        epochs[i] = list.epoch;
    return messages;
  }
  // All servers and workers, up to the list that names a seeder. Returns: what is said then.
  std::vector<proto::ToPeer> join(std::uint32_t workers = 2) {
    for (std::uint32_t i = 0; i < 2; ++i) server_hello(i);
    for (std::uint32_t i = 0; i < workers; ++i) worker_hello(played(i));
    collect();
    return acked();
  }
  void hear_server(std::uint32_t server, proto::Body body) {
    hear(server_peer(server), {proto::Role::Server, server}, lives[server], std::move(body));
  }
  void ack(std::uint32_t server) { hear_server(server, proto::MembersAck{epochs[server]}); }
  // Both servers have the newest list.
  std::vector<proto::ToPeer> acked() {
    for (std::uint32_t i = 0; i < 2; ++i) ack(i);
    return collect();
  }
  std::vector<proto::ToPeer> told(std::uint32_t server, std::uint32_t seeded) {
    proto::Heartbeat beat;
    beat.seeded = seeded;
    hear_server(server, beat);
    return collect();
  }
  // Both servers have the values of the newest seeder.
  void seed(std::uint32_t seeding = 1) {
    acked();
    for (std::uint32_t i = 0; i < 2; ++i) told(i, seeding);
  }
  // Server 0 is another process.
  void replace_server(std::vector<proto::SnapshotInfo> snapshots = {}) {
    proto::Hello hello{"shard-0", 10, "tcp://10.0.0.9:1"};
    hello.snapshots = std::move(snapshots);
    lives[0] += 1000;
    hear_server(0, hello);
    collect();
  }
  // The worker that is named the second time, once the shards know the members.
  std::string named_again() {
    auto said = collect();
    for (int i = 0; i < 3 && !named(said).starts_with("2"); ++i) said = acked();
    return named(said);
  }
  // A worker goes on as its next incarnation.
  void join_again(PlayedWorker& worker) {
    ++worker.incarnation;
    proto::Hello hello{worker.name, 10, ""};
    hello.again = true;
    from_worker(worker, hello);
  }

  std::uint64_t epochs[2] = {};  // newest list sent to each server
  Incarnation lives[2] = {70, 71};
};

// The numbers of the Starts to a worker, "1 0".
std::string starts(const std::vector<proto::ToPeer>& messages, const PlayedWorker& worker) {
  std::string text;
  for (const auto& start : bodies<proto::Start>(messages, worker.peer))
    text += fmt::format("{}{}", text.empty() ? "" : " ", start.seeding);
  return text;
}

TEST_CASE("seed: the first worker of the file is named, asked, and then all start") {
  SeedingWorld world;
  for (std::uint32_t i = 0; i < 2; ++i) world.server_hello(i);
  world.worker_hello(kZero);
  world.worker_hello(kOne);
  CHECK(named(world.collect()) == "0 of 0");
  world.ack(0);
  CHECK(named(world.collect()) == "-");  // not all shards know them
  world.ack(1);
  auto said = world.collect();
  CHECK(named(said) == "1 of 1");
  CHECK(starts(said, kOne).empty());
  world.log();
  world.ack(0);
  CHECK(starts(world.collect(), kOne).empty());
  world.ack(1);
  said = world.collect();
  CHECK(starts(said, kOne) == "1");
  CHECK(starts(said, kZero).empty());
  CHECK_FALSE(world.scheduler.started().has_value());

  said = world.told(1, 1);
  CHECK(starts(said, kOne).empty());
  CHECK_FALSE(world.scheduler.started().has_value());
  said = world.told(0, 1);
  CHECK(starts(said, kOne) == "0");
  CHECK(starts(said, kZero) == "0");
  CHECK(world.scheduler.started().has_value());
  CHECK(world.log() == "training starts with 2 workers on 2 shards\n");
  CHECK(world.tuner.heard.ends_with("start"));
  // Nobody is asked again.
  said = world.told(0, 1);
  CHECK(said.empty());
}

TEST_CASE("seed: a decision says whose values they are") {
  SeedingWorld world;
  world.join();
  CHECK(world.log().find("the model begins with the values of worker 1 'edge-1'\n") !=
        std::string::npos);
}

TEST_CASE("seed: the workers hear whom the start waits for") {
  SeedingWorld world;
  world.scheduler.announce_waits(world.now);
  world.join();
  world.acked();
  world.log();
  world.pass(kSecond * 7, {kZero, kOne});
  CHECK(world.log().find("waiting for the initial values of worker 1 'edge-1'") !=
        std::string::npos);
}

TEST_CASE("seed: a repeated Hello is answered with the same Start, until the values are there") {
  SeedingWorld world;
  world.join();
  world.worker_hello(kOne);
  CHECK(starts(world.collect(), kOne).empty());  // the shards do not know yet
  world.acked();
  world.worker_hello(kOne);
  CHECK(starts(world.collect(), kOne) == "1");
  world.worker_hello(kZero);
  CHECK(starts(world.collect(), kZero).empty());
  world.told(0, 1);
  world.told(1, 1);
  world.worker_hello(kOne);
  world.worker_hello(kZero);
  const auto said = world.collect();
  CHECK(starts(said, kOne) == "0");
  CHECK(starts(said, kZero) == "0");
}

// How far it has come when the seeder goes, and how it goes.
TEST_CASE("seed: whoever goes before all shards have its values is replaced by another") {
  for (int stage = 0; stage < 3; ++stage) {
    CAPTURE(stage);
    for (const std::string how : {"leaves", "is lost", "joins again", "is another process"}) {
      CAPTURE(how);
      SeedingWorld world;
      world.join();
      if (stage > 0) world.acked();
      if (stage > 1) world.told(0, 1);
      PlayedWorker next = kOne;
      if (how == "joins again") {
        world.join_again(next);
      } else if (how == "is another process") {
        next = {2, kOne.name, 77'000, 333};
        world.worker_hello(next);
      } else {
        if (how == "leaves")
          world.from_worker(kOne, proto::Leave{"battery"});
        else
          world.pass(kSecond * 11, {kZero});
        world.worker_hello(kTwo);  // so many are expected
      }
      // The first of the file, once the shards know it.
      const bool same = how == "joins again" || how == "is another process";
      CHECK(world.named_again() == fmt::format("2 of {}", same ? next.index : 0));
      CHECK_FALSE(world.scheduler.started().has_value());
      auto said = world.acked();
      CHECK(starts(said, same ? next : kZero) == "2");
      // The values of the first one mean nothing now.
      for (std::uint32_t server = 0; server < 2; ++server) world.told(server, 1);
      CHECK_FALSE(world.scheduler.started().has_value());
      world.told(0, 2);
      CHECK_FALSE(world.scheduler.started().has_value());
      said = world.told(1, 2);
      CHECK(starts(said, kZero) == "0");
      CHECK(world.scheduler.started().has_value());
    }
  }
}

TEST_CASE("seed: shards with values of different workers are not one model") {
  SeedingWorld world;
  world.join();
  world.acked();
  world.told(0, 1);
  world.from_worker(kOne, proto::Leave{"battery"});
  world.worker_hello(kTwo);
  CHECK(world.named_again() == "2 of 0");
  world.acked();
  world.told(1, 2);
  CHECK_FALSE(world.scheduler.started().has_value());
  world.told(0, 2);
  CHECK(world.scheduler.started().has_value());
}

TEST_CASE("seed: a server that comes back empty makes the values of all new") {
  for (const bool started : {false, true}) {
    CAPTURE(started);
    auto options = seeds();
    options.save_every = kSecond * 30;  // else a run that has begun goes on without it
    SeedingWorld world(options);
    world.join();
    if (started) {
      world.seed();
    } else {
      world.acked();
      world.told(0, 1);
    }
    CHECK(world.scheduler.started().has_value() == started);
    world.replace_server();
    world.told(1, 1);
    PlayedWorker zero = kZero, one = kOne;
    if (started) {
      world.join_again(zero);
      world.join_again(one);
    } else {  // they have not begun: the same lives say Hello
      world.worker_hello(zero);
      world.worker_hello(one);
    }
    auto said = world.collect();
    for (int i = 0; i < 4 && starts(said, one) != "2"; ++i) said = world.acked();
    CHECK(starts(said, one) == "2");
    CHECK(starts(said, zero).empty());
    world.told(0, 2);
    said = world.told(1, 2);
    CHECK(starts(said, zero).ends_with("0"));
    CHECK(starts(said, one).ends_with("0"));
    CHECK(world.scheduler.started().has_value());
  }
}

TEST_CASE("seed: a server that comes back from its snapshot has the values in it") {
  auto options = seeds();
  options.save_every = kSecond * 30;
  SeedingWorld world(options);
  world.join();
  world.seed();
  proto::Heartbeat beat;
  beat.seeded = beat.saved = 1;
  for (std::uint32_t i = 0; i < 2; ++i) world.hear_server(i, beat);
  world.replace_server({{options.incarnation, 1, 0}});
  PlayedWorker zero = kZero, one = kOne;
  world.join_again(zero);
  world.join_again(one);
  world.collect();
  const auto said = world.acked();
  CHECK(starts(said, zero) == "0");
  CHECK(starts(said, one) == "0");
}

TEST_CASE("seed: who joins later just starts") {
  SeedingWorld world;
  world.join();
  world.acked();
  world.told(0, 1);
  world.told(1, 1);
  world.worker_hello(kTwo);
  world.collect();
  const auto said = world.acked();
  CHECK(starts(said, kTwo) == "0");
  CHECK(named(said) == "-");
}

TEST_CASE("seed: who seeded may leave after the start") {
  SeedingWorld world;
  world.join();
  world.acked();
  world.told(0, 1);
  world.told(1, 1);
  world.from_worker(kOne, proto::Leave{"battery"});
  CHECK(named(world.collect()) == "0 of 0");
  world.worker_hello(kTwo);
  world.collect();
  CHECK(starts(world.acked(), kTwo) == "0");
}

TEST_CASE("seed: a built-in model names nobody") {
  SchedulerWorld world;
  world.start();
  CHECK(world.scheduler.started().has_value());
}

}  // namespace
}  // namespace rubato::scheduler::seed_tests
