// Which orders to save are carried out.
#include "server/snapshot_orders.hpp"

#include <doctest/doctest.h>

namespace rubato::server::ordered {
namespace {

constexpr Incarnation kRun = 7;

struct World {
  SnapshotOrders orders;
  SnapshotOrders::Lines log, warnings;

  // An order that took so long, by a clock that says 100 s.
  bool accepts(std::uint64_t number, double seconds) {
    const Instant sent{100'000'000'000};
    return orders.accepts(sent + Duration::from_seconds(seconds), {.number = number, .clock = sent},
                          warnings);
  }
  std::string warning() { return warnings.poll().value_or(""); }
};

TEST_CASE("orders: one that took 1.5 s longer than the quickest is late, and teaches nothing") {
  World world;
  CHECK_FALSE(world.accepts(1, 1.6));  // before any trip is known
  CHECK(world.warning() ==
        "snapshot 1 is left out: its order came late, and other shards have moved on");
  CHECK_FALSE(world.accepts(2, 1.6));
  world.orders.learn_trip(Duration::from_seconds(0.2));
  CHECK(world.accepts(3, 1.6));
  CHECK_FALSE(world.accepts(4, 1.8));
  CHECK(world.accepts(5, 0.1));  // the quickest now
  CHECK_FALSE(world.accepts(6, 1.65));
}

TEST_CASE("orders: answers that a cut has held back do not make a late order look usual") {
  for (const int hellos : {1, 2}) {
    CAPTURE(hellos);
    World world;
    for (int i = 0; i < hellos; ++i) world.orders.on_hello(Instant{} + Duration::from_seconds(i));
    world.orders.on_welcome(Instant{} + Duration::from_seconds(hellos - 1 + 0.01));
    world.orders.learn_trip(Duration::from_seconds(3.7));
    // Of two Hellos nobody knows which one was answered.
    CHECK(world.accepts(1, 2.3) == (hellos == 2));
  }
  World waited;  // for other servers
  waited.orders.on_hello({});
  waited.orders.on_welcome(Instant{} + Duration::from_seconds(0.6));
  CHECK_FALSE(waited.accepts(1, 1.6));
}

TEST_CASE("orders: a clock that stood still makes an order late, an unknown one does not") {
  World world;
  CHECK_FALSE(world.accepts(1, -0.2));
  CHECK(world.orders.accepts({}, {.number = 2}, world.warnings));
}

TEST_CASE("orders: one at a time, and what is left out meanwhile is told once") {
  World world;
  CHECK(world.accepts(1, 0));
  const auto info = world.orders.begin(1, 40);
  CHECK(info == proto::SnapshotInfo{.run = 0, .number = 1, .commits = 40});
  CHECK_FALSE(world.accepts(2, 0));
  CHECK(world.warning() == "snapshot 2 is left out: snapshot 1 is still being written");
  CHECK_FALSE(world.accepts(3, 0));
  CHECK(world.warning().empty());
  world.orders.end({}, world.log, world.warnings);
  CHECK(world.orders.saved() == 1);
  CHECK_FALSE(world.orders.saving());
  CHECK(world.accepts(4, 0));
  CHECK_FALSE(world.log.poll());
}

TEST_CASE("orders: a disk that fails is told once, and once more when it is well again") {
  World world;
  for (const std::uint64_t number : {1, 2}) {
    world.orders.begin(number, number);
    world.orders.end(fail(ErrorCode::Io, "disk full"), world.log, world.warnings);
  }
  CHECK(world.warning() == "disk full; the run goes on without this snapshot");
  CHECK(world.warning().empty());
  CHECK(world.orders.saved() == 0);
  world.orders.begin(3, 3);
  world.orders.end({}, world.log, world.warnings);
  CHECK(world.log.poll() == "snapshots are written again");
  CHECK(world.orders.saved() == 3);
}

TEST_CASE("orders: what is on disk of another run is none of ours") {
  World world;
  const std::vector<Storage::Found> found = {
      {.info = {.run = 6, .number = 9, .commits = 90}, .name = ""},
      {.info = {.run = kRun, .number = 2, .commits = 20}, .name = ""}};
  world.orders.join(kRun, found);
  CHECK_FALSE(world.orders.find(9));
  REQUIRE(world.orders.find(2));
  CHECK(world.orders.commits() == 20);
  world.orders.begin(3, 30);
  CHECK(world.orders.commits() == 30);
  world.orders.forget_after(2);
  CHECK_FALSE(world.orders.find(3));
  CHECK(world.orders.commits() == 20);
}

}  // namespace
}  // namespace rubato::server::ordered
