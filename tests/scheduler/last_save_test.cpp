// The snapshot at the end of a run: the end waits for the disks that write it, says what would be
// lost, and is told to wait no longer.
#include <doctest/doctest.h>

#include <limits>

#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler::last_save {
namespace {

using tests::bodies;

SchedulerOptions saving() {
  SchedulerOptions options = some_options();
  options.save_every = kSecond * 60;
  return options;
}

struct World : SchedulerWorld {
  explicit World(const SchedulerOptions& options = saving()) : SchedulerWorld(options) {}

  // Server `index` says so.
  void tell(std::uint32_t index, std::uint64_t saved, std::uint64_t saving, bool broken = false) {
    proto::Heartbeat beat;
    beat.saved = saved;
    beat.saving = saving;
    beat.broken = broken;
    from_server(index, beat);
  }
  // The run starts, and both servers have written the first snapshot.
  void start_saved() {
    start();
    tell(0, 1, 0);
    tell(1, 1, 0);
  }
  void train(std::uint64_t commits) {
    for (const auto& worker : {kZero, kOne}) {
      proto::Progress progress;
      progress.steps = progress.commits = commits;
      from_worker(worker, progress);
    }
  }
  // The run ends, and its workers leave. Returns: what is said.
  std::vector<proto::ToPeer> end() {
    scheduler.stop(now, "target reached");
    for (const auto& worker : {kZero, kOne}) from_worker(worker, proto::Leave{"target reached"});
    return collect();
  }
  // So many seconds pass, in which server 0 and 1 say these. Returns: what is said.
  template <class F>
  std::vector<proto::ToPeer> pass(int seconds, F say) {
    std::vector<proto::ToPeer> all;
    for (int i = 0; i < seconds; ++i) {
      now = now + kSecond;
      say();
      scheduler.on_wakeup(now);
      for (auto& out : collect()) {
        if (const auto* order = std::get_if<proto::Save>(&out.message.body))
          newest_order = order->number;
        all.push_back(std::move(out));
      }
    }
    return all;
  }
  std::uint64_t newest_order = 0;  // in pass()
};

std::uint64_t ordered(const std::vector<proto::ToPeer>& said, std::uint32_t server) {
  const auto orders = bodies<proto::Save>(said, server_peer(server));
  return orders.empty() ? 0 : orders.back().number;
}

bool stops(const std::vector<proto::ToPeer>& said, std::uint32_t server) {
  return count<proto::Stop>(said, server_peer(server)) > 0;
}

TEST_CASE("last save: it is ordered once no disk still writes, and the end waits for it") {
  World world;
  world.start();
  world.train(10);
  world.now = world.now + kSecond;
  world.tell(0, 1, 0);
  world.tell(1, 0, 1);  // its disk is slow
  world.train(505);
  auto said = world.end();
  CHECK(ordered(said, 0) == 0);
  CHECK_FALSE(stops(said, 0));
  said = world.pass(40, [&] {
    world.tell(0, 1, 0);
    world.tell(1, 0, 1);
  });
  CHECK(ordered(said, 0) == 0);
  CHECK_FALSE(stops(said, 1));
  const std::string log = world.log();
  CHECK(
      log.find("waiting for the snapshot of the end, until it is written or the run is "
               "interrupted: server 0 'shard-0' has not written it, and its newest one is without "
               "1,010 commits; server 1 'shard-1' has written none, and its newest one is without "
               "1,010 commits\n") != std::string::npos);
  world.tell(1, 1, 0);
  said = world.collect();
  CHECK(ordered(said, 0) == 2);
  CHECK(ordered(said, 1) == 2);
  CHECK_FALSE(stops(said, 0));
  said = world.pass(30, [&] {
    world.tell(0, 2, 0);
    world.tell(1, 1, 2);
  });
  CHECK_FALSE(stops(said, 0));
  CHECK_FALSE(world.scheduler.over());
  world.tell(1, 2, 0);
  said = world.collect();
  CHECK(stops(said, 0));
  CHECK(stops(said, 1));
  CHECK(world.log().find("ends without") == std::string::npos);
}

TEST_CASE("last save: a disk that refuses it is asked again") {
  World world;
  world.start_saved();
  world.train(7);
  CHECK(ordered(world.end(), 1) == 2);
  const auto said = world.pass(12, [&] {
    world.tell(0, 2, 0);
    world.tell(1, 1, 0);  // it is full
  });
  CHECK(ordered(said, 1) > 2);
  CHECK_FALSE(stops(said, 0));
  const std::uint64_t last = ordered(said, 1);
  world.tell(0, last, 0);
  world.tell(1, last, 0);
  CHECK(stops(world.collect(), 0));
}

TEST_CASE("last save: a server without a directory for snapshots is not waited for") {
  for (const bool one_keeps : {false, true}) {
    CAPTURE(one_keeps);
    World world;
    world.keeps = false;
    world.start();
    if (one_keeps) world.tell(0, 1, 0);  // as one of 0.2.0, whose Hello does not say so
    world.train(7);
    CHECK(stops(world.end(), 1) == !one_keeps);
    if (one_keeps) {
      world.tell(0, 2, 0);
      CHECK(stops(world.collect(), 1));
    }
    CHECK(world.log().find("snapshot") == std::string::npos);
  }
}

TEST_CASE("last save: a disk that has never taken one is waited for") {
  World world;
  world.start();
  world.tell(0, 1, 0);
  world.tell(1, 0, 1);  // it begins one, and is full
  world.pass(8, [&] {
    world.tell(0, 1, 0);
    world.tell(1, 0, 0);
  });
  world.train(7);
  CHECK_FALSE(stops(world.end(), 1));
  CHECK_FALSE(stops(world.pass(8, [&] { world.tell(1, 0, 0); }), 1));
  world.tell(0, world.newest_order, 0);
  world.tell(1, world.newest_order, 0);
  CHECK(stops(world.collect(), 1));
}

TEST_CASE("last save: a disk that refuses it three times is not waited for, and the loss is told") {
  World world;
  world.start_saved();
  world.train(7);
  world.newest_order = ordered(world.end(), 0);
  const auto said = world.pass(30, [&] {
    world.tell(0, world.newest_order, 0);
    world.tell(1, 1, 0);
  });
  CHECK(stops(said, 1));
  CHECK(world.log().find("the run ends without a snapshot of its end: server 1 'shard-1' has not "
                         "written it, and its newest one is without 14 commits\n") !=
        std::string::npos);
}

TEST_CASE("last save: whoever interrupts the wait ends it, and hears what is lost") {
  World world;
  world.start_saved();
  world.train(9);
  world.end();
  world.pass(3, [&] {
    world.tell(0, 2, 0);
    world.tell(1, 1, 2);
  });
  world.log();
  world.scheduler.hurry_end(world.now);
  CHECK(stops(world.collect(), 1));
  CHECK(
      world.log() ==
      "the run ends without a snapshot of its end: server 1 'shard-1' has not written it, and its "
      "newest one is without 18 commits\n");
}

TEST_CASE("last save: a silent server is waited for as long as any other, and named") {
  World world;
  world.start_saved();
  world.train(9);
  world.newest_order = ordered(world.end(), 0);
  const auto said = world.pass(30, [&] { world.tell(0, world.newest_order, 0); });
  CHECK(stops(said, 0));
  CHECK(
      world.log().find("the run ends without a snapshot of its end: server 1 'shard-1' is silent, "
                       "and its newest one is without 18 commits\n") != std::string::npos);
}

TEST_CASE("last save: broken or doubtful parameters are not kept, and the loss is told") {
  for (const bool broken : {true, false}) {
    CAPTURE(broken);
    SchedulerOptions options = saving();
    options.watch = WatchOptions{};
    World world(options);
    world.start_saved();
    world.train(9);
    if (!broken)
      world.from_evaluator(
          proto::Evaluation{.age = {}, .loss = std::numeric_limits<double>::quiet_NaN()});
    auto said = world.end();
    world.from_evaluator(proto::Leave{"target reached"});
    for (auto& out : world.collect()) said.push_back(std::move(out));
    if (broken) {
      world.tell(0, 1, 0, true);
      for (auto& out : world.collect()) said.push_back(std::move(out));
    }
    CHECK(stops(said, 0));
    CHECK(ordered(said, 0) == (broken ? 2 : 0));
    CHECK(world.log().find("the run ends without a snapshot of its end: ") != std::string::npos);
  }
}

TEST_CASE("last save: with a journal nothing would be lost, and nobody waits") {
  SchedulerOptions options = saving();
  options.journal = true;
  World world(options);
  world.start_saved();
  world.train(9);
  const auto said = world.end();
  CHECK(ordered(said, 0) == 2);
  CHECK(stops(said, 0));
}

TEST_CASE("last save: a run that failed for want of workers can go on from its end") {
  World world;
  world.start_saved();
  world.train(9);
  world.scheduler.fail(world.now, "no worker is left");
  for (const auto& worker : {kZero, kOne}) world.from_worker(worker, proto::Leave{"it is over"});
  CHECK(ordered(world.collect(), 0) == 2);
}

// A server with a journal that leads on from nothing answers nobody until it has a snapshot. No
// loss is measured without answers, so the doubt would stay.
TEST_CASE("snapshots: a server that needs one gets it, though the last loss was not finite") {
  SchedulerOptions options = saving();
  options.journal = true;
  options.watch = WatchOptions{};
  World world(options);
  world.start_saved();
  world.now = world.now + kSecond * 61;
  world.from_evaluator(
      proto::Evaluation{.age = {}, .loss = std::numeric_limits<double>::quiet_NaN()});
  world.scheduler.on_wakeup(world.now);
  CHECK(ordered(world.collect(), 0) == 0);  // by itself it orders none
  proto::Heartbeat needs;
  needs.saved = 1;
  needs.wants_snapshot = true;
  world.from_server(1, needs);
  const auto orders = bodies<proto::Save>(world.collect(), server_peer(1));
  REQUIRE(orders.size() == 1);
  CHECK(orders[0].keep == 1);  // the good one stays
}

}  // namespace
}  // namespace rubato::scheduler::last_save
