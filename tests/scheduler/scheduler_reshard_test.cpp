// Another number of servers takes over the shards of a run.
#include <doctest/doctest.h>

#include "proto/shard_map.hpp"
#include "scheduler/scheduler_journal.hpp"
#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

using tests::bodies;

constexpr std::uint64_t kNewNumber = 4;  // of the snapshots that were made for the new servers

SchedulerOptions keeping_snapshots() {
  auto options = some_options();
  options.save_every = kSecond * 30;
  return options;
}

// Two servers, of which three snapshots were ordered, and three in their place. The scheduler's
// process is another one, too.
struct Resharded : SchedulerWorld {
  explicit Resharded(std::uint64_t snapshot = kNewNumber, std::vector<std::string> addresses = {})
      : SchedulerWorld(keeping_snapshots()) {
    start();
    pass(kSecond * 65, {kZero, kOne});
    for (const std::uint32_t server : {0u, 1u})
      if (snapshot > 0) from_server(server, proto::Heartbeat{.echo = {}, .clock = {}, .saved = 3});
    collect();
    log();
    scheduler.on_resharded(now, {3, std::move(addresses), snapshot});
    scheduler.on_return(now);
  }
  // Server `index` of the new map says Hello, with one snapshot; 0: with none.
  void comes(std::uint32_t index, std::uint64_t number) {
    proto::Hello hello{fmt::format("new-{}", index), 10, address(index)};
    if (number > 0) hello.snapshots = {{1, number, 20, proto::shard_range(10, index, 3).begin}};
    hear(peer(index), {proto::Role::Server, 0}, 500 + index, hello);
  }
  static proto::PeerId peer(std::uint32_t index) { return 300 + index; }
  static std::string address(std::uint32_t index) {
    return fmt::format("tcp://10.0.0.{}:1", index);
  }
  template <class Body>
  static Body one(const std::vector<proto::ToPeer>& said, std::uint32_t index) {
    const auto all = bodies<Body>(said, peer(index));
    REQUIRE(all.size() == 1);
    return all[0];
  }
};

TEST_CASE(
    "resharded: the new servers wait for each other, and go on with the range that they have") {
  Resharded world;
  CHECK(world.scheduler.options().servers == 3);
  for (const std::uint32_t server : {2u, 0u}) {
    world.comes(server, kNewNumber);
    CHECK(count<proto::Welcome>(world.collect(), Resharded::peer(server)) == 0);
  }
  CHECK_FALSE(world.scheduler.serving());
  world.comes(1, kNewNumber);
  const auto said = world.collect();
  for (const std::uint32_t server : {0u, 1u, 2u}) {
    const auto welcome = Resharded::one<proto::Welcome>(said, server);
    CHECK(welcome.you.index == server);
    CHECK(welcome.range == proto::shard_range(10, server, 3));
    CHECK(welcome.snapshot == kNewNumber);
  }
  // A server of before is told that it has no place any more.
  world.from_server(0, proto::Heartbeat{});
  const auto refusals = bodies<proto::Refusal>(world.collect(), server_peer(0));
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].code == proto::RefusalCode::NameTaken);
  // Members that live join again, and are told where the servers are now.
  world.from_worker(kZero, proto::Progress{});
  const auto notices = bodies<proto::Notice>(world.collect(), kZero.peer);
  REQUIRE_FALSE(notices.empty());
  CHECK(notices.back().rejoin);
  proto::Hello again{kZero.name, 10, ""};
  again.again = true;
  world.hear(kZero.peer, {proto::Role::Worker, kZero.index}, kZero.incarnation + 1, again);
  const auto welcomes = bodies<proto::Welcome>(world.collect(), kZero.peer);
  REQUIRE(welcomes.size() == 1);
  CHECK(welcomes[0].shards.shards.size() == 3);
  CHECK(welcomes[0].shards.shards[2].endpoint == Resharded::address(2));
}

TEST_CASE("resharded: the next snapshot has a higher number, and that of all is kept meanwhile") {
  Resharded world;
  for (const std::uint32_t server : {0u, 1u, 2u}) world.comes(server, kNewNumber);
  std::optional<proto::Save> order;
  for (int second = 0; second < 40; ++second) {
    world.now = world.now + kSecond;
    for (const std::uint32_t server : {0u, 1u, 2u})
      world.hear(Resharded::peer(server), {proto::Role::Server, server}, 500 + server,
                 proto::Heartbeat{.echo = {}, .clock = world.now});
    world.scheduler.on_wakeup(world.now);
    for (const auto& save : bodies<proto::Save>(world.collect(), Resharded::peer(1))) order = save;
  }
  REQUIRE(order);
  CHECK(order->number == kNewNumber + 1);
  CHECK(order->keep == kNewNumber);
}

TEST_CASE("resharded: who has nothing, or what was before, is refused and does not begin anew") {
  for (const std::uint64_t wrong : {0u, 3u}) {
    CAPTURE(wrong);
    Resharded world;
    world.comes(0, kNewNumber);
    world.comes(1, wrong);
    world.comes(2, kNewNumber);
    const auto said = world.collect();
    for (const std::uint32_t server : {0u, 1u, 2u}) {
      const auto refusal = Resharded::one<proto::Refusal>(said, server);
      CHECK(refusal.message.find("needs a snapshot of it: start it with the --state") !=
            std::string::npos);
    }
  }
}

TEST_CASE("resharded: with addresses, and a scheduler that comes back once more meanwhile") {
  std::vector<std::string> addresses;
  for (const std::uint32_t server : {0u, 1u, 2u}) addresses.push_back(Resharded::address(server));
  Resharded world(kNewNumber, addresses);
  world.comes(0, kNewNumber);
  world.comes(1, kNewNumber);
  world.scheduler.on_return(world.now);
  world.collect();
  for (const std::uint32_t server : {0u, 1u, 2u}) world.comes(server, kNewNumber);
  const auto said = world.collect();
  for (const std::uint32_t server : {0u, 1u, 2u})
    CHECK(Resharded::one<proto::Welcome>(said, server).snapshot == kNewNumber);
}

TEST_CASE("resharded: where no snapshot was ever written, all begin anew") {
  Resharded world(0);
  for (const std::uint32_t server : {0u, 1u, 2u}) world.comes(server, 0);
  const auto said = world.collect();
  for (const std::uint32_t server : {0u, 1u, 2u})
    CHECK(Resharded::one<proto::Welcome>(said, server).snapshot == 0);
}

TEST_CASE("resharded: the settings of a journal tell the servers that the run began with") {
  auto options = some_options(2);
  CHECK(servers_of(settings_of(options)) == Resharding{2, {}, 0});
  options.settings = "sync = bsp\n";
  options.addresses = {"tcp://a:1", "tcp://b:1"};
  CHECK(servers_of(settings_of(options)) == Resharding{2, options.addresses, 0});
  CHECK(servers_of("sync = bsp\n").servers == 0);
}

}  // namespace
}  // namespace rubato::scheduler
