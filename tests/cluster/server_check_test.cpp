// A worker that looks before it joins: whom it asks, when it is content, what it says of a server
// that does not answer.
#include "cluster/server_check.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/server/sent.hpp"

namespace rubato::cluster::server_check_tests {
namespace {

using proto::NodeId;
using proto::Role;
using tests::bodies;

constexpr std::uint64_t kCluster = 0xc1;
constexpr NodeId kScheduler{Role::Scheduler};
const Duration kSecond = Duration::from_seconds(1);

struct World {
  Instant now{1'000'000'000};
  ServerCheck check{{.cluster = kCluster,
                     .incarnation = 3,
                     .name = "pi-1",
                     .settings = "seed = 1\n",
                     .parameters = 10,
                     .give_up_after = kSecond * 30}};
  World() { check.on_start(now); }

  void hear(NodeId from, proto::Body body, std::uint64_t cluster = kCluster) {
    check.on_message(now, from,
                     {.cluster = cluster,
                      .sender = from,
                      .incarnation = 1,
                      .body = std::move(body),
                      .payload = {}});
  }
  void welcome() {
    proto::Welcome welcome{{Role::Worker, 0}, 10, {}, {}};
    welcome.shards.shards = {{{0, 5}, "tcp://10.0.0.2:5701", ""},
                             {{5, 10}, "tcp://10.0.0.3:1", ""}};
    hear(kScheduler, welcome);
  }
};

TEST_CASE(
    "server check: it asks the scheduler, then each server, and ends when all have answered") {
  World world;
  auto said = tests::sent(world.check);
  REQUIRE(bodies<proto::Hello>(said, kScheduler).size() == 1);
  CHECK(bodies<proto::Hello>(said, kScheduler)[0].looks);
  CHECK(bodies<proto::Hello>(said, kScheduler)[0].settings == "seed = 1\n");
  CHECK(world.check.silent().empty());
  world.welcome();
  said = tests::sent(world.check);
  for (const std::uint32_t index : {0u, 1u}) {
    CHECK(bodies<proto::Heartbeat>(said, {Role::Server, index}).size() == 1);
    REQUIRE_FALSE(said.empty());
  }
  for (const auto& out : said) CHECK(out.message.sent == world.now);  // to be answered
  world.hear({Role::Server, 0}, proto::Heartbeat{});
  CHECK_FALSE(world.check.stopped().has_value());
  CHECK(world.check.silent() == std::vector<std::uint32_t>{1});
  world.now = world.now + kSecond;
  world.check.on_wakeup(world.now);
  said = tests::sent(world.check);
  CHECK(bodies<proto::Heartbeat>(said, {Role::Server, 0}).empty());
  CHECK(bodies<proto::Heartbeat>(said, {Role::Server, 1}).size() == 1);
  world.hear({Role::Server, 1}, proto::Heartbeat{});
  CHECK(world.check.stopped().has_value());
}

TEST_CASE("server check: the scheduler hears of the trouble, and there is an end") {
  World world;
  world.welcome();
  world.hear(kScheduler, proto::Notice{"waiting for pi-1 (1 of 2 workers joined)"});
  CHECK(world.check.poll_log() == "waiting for pi-1 (1 of 2 workers joined)");
  tests::sent(world.check);
  world.check.on_trouble(world.now, "cannot reach server 1");
  const auto hellos = bodies<proto::Hello>(tests::sent(world.check), kScheduler);
  REQUIRE(hellos.size() == 1);
  CHECK(hellos[0].trouble == "cannot reach server 1");
  for (int second = 0; second < 31 && !world.check.failure(); ++second) {
    world.now = world.now + kSecond;
    world.hear(kScheduler, proto::Heartbeat{});
    world.check.on_wakeup(world.now);
  }
  REQUIRE(world.check.failure().has_value());
  CHECK(world.check.failure()->code == ErrorCode::Io);  // exit code 1
  CHECK(world.check.failure()->message == "gives up after 30 s: cannot reach server 1");
}

TEST_CASE("server check: a refusal, another cluster and a silent scheduler end it") {
  World refused;
  refused.hear(kScheduler, proto::Refusal{proto::RefusalCode::OtherSettings, "seed = 2"});
  REQUIRE(refused.check.failure().has_value());
  CHECK(refused.check.failure()->message == "scheduler refused this worker: seed = 2");
  World other;
  other.hear(kScheduler, proto::Heartbeat{}, 0xbad);
  REQUIRE(other.check.failure().has_value());
  CHECK(other.check.failure()->code == ErrorCode::Refused);
  World alone;
  for (int second = 0; second < 61; ++second)
    alone.check.on_wakeup(alone.now = alone.now + kSecond);
  REQUIRE(alone.check.failure().has_value());
  CHECK(alone.check.failure()->code == ErrorCode::Timeout);
}

}  // namespace
}  // namespace rubato::cluster::server_check_tests
