// The simulated network and disks behave as they say.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/simulation/disk.hpp"
#include "tests/simulation/network.hpp"

namespace rubato::simulation {
namespace {

constexpr ProcessId kClient = 1, kListener = 2;

struct TwoPlaces {
  Events events;
  std::vector<std::string> heard;  // by whom, and what
  std::vector<proto::PeerId> clients;
  Network network{events, Rng(1), 2,
                  [this](ProcessId to, proto::PeerId peer, std::uint64_t, const ParcelPtr& parcel) {
                    const auto message =
                        proto::decode({parcel->frame.control.data(), parcel->frame.control.size()},
                                      parcel->frame.payload);
                    REQUIRE(message);
                    const auto& notice = std::get<proto::Notice>(message->body);
                    heard.push_back((to == kClient ? "client " : "listener ") + notice.text);
                    if (to == kListener) clients.push_back(peer);
                  }};
  proto::PeerId listener = 0;

  TwoPlaces() {
    network.open(kListener, 0, true);
    network.open(kClient, 1, false);
    listener = network.connect(kClient, 0);
  }
  void send(ProcessId from, proto::PeerId to, const std::string& text) {
    auto parcel = std::make_shared<Parcel>();
    parcel->frame = proto::encode({.cluster = 1,
                                   .sender = {proto::Role::Scheduler, 0},
                                   .incarnation = 1,
                                   .body = proto::Notice{text, false},
                                   .payload = {}});
    network.send(from, to, parcel);
  }
  void run(double seconds) {
    const Instant until = events.now() + Duration::from_seconds(seconds);
    while (!events.empty() && events.next() <= until) events.run_next();
    events.advance(until);
  }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("messages arrive in order, both ways") {
  TwoPlaces world;
  for (const char* text : {"1", "2", "3"}) world.send(kClient, world.listener, text);
  world.run(1);
  CHECK(world.heard == Lines{"listener 1", "listener 2", "listener 3"});
  world.send(kListener, world.clients.front(), "back");
  world.run(1);
  CHECK(world.heard.back() == "client back");
}

TEST_CASE("a cut holds messages, which arrive some time after it is healed") {
  TwoPlaces world;
  world.send(kClient, world.listener, "1");
  world.run(1);
  world.network.cut(1, 0);
  world.send(kClient, world.listener, "2");
  world.run(10);
  CHECK(world.heard.size() == 1);
  world.network.heal(1, 0);
  world.run(20);
  CHECK(world.heard == Lines{"listener 1", "listener 2"});
  CHECK(world.clients[0] == world.clients[1]);
}

TEST_CASE("a cut of a minute ends the connection, and loses what was on its way") {
  TwoPlaces world;
  world.send(kClient, world.listener, "1");
  world.run(1);
  world.network.cut(1, 0);
  world.send(kClient, world.listener, "2");
  world.run(61);
  world.send(kClient, world.listener, "3");  // waits for the next connection
  world.network.heal(1, 0);
  world.run(120);
  CHECK(world.heard == Lines{"listener 1", "listener 3"});
  CHECK(world.clients[0] != world.clients[1]);
}

TEST_CASE("a reset loses what is on its way, and a listener cannot answer the old connection") {
  TwoPlaces world;
  world.send(kClient, world.listener, "1");
  world.run(1);
  world.send(kClient, world.listener, "2");
  world.network.reset(0, 1);
  world.run(5);
  world.send(kListener, world.clients.front(), "back");
  world.send(kClient, world.listener, "3");
  world.run(5);
  CHECK(world.heard == Lines{"listener 1", "listener 3"});
}

TEST_CASE("messages wait for a listener that begins later") {
  TwoPlaces world;
  world.network.close(kListener, Network::Ended::Killed);
  world.run(1);
  world.send(kClient, world.listener, "1");
  world.run(30);
  CHECK(world.heard.empty());
  world.network.open(kListener, 0, true);
  world.run(6);
  CHECK(world.heard == Lines{"listener 1"});
}

TEST_CASE("a loss of power takes what the system has not written") {
  bool lost = false, torn = false, zeros = false;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    JournalDisk disk;
    Rng rng(seed);
    Instant now;
    for (int second = 0; second < 100; ++second) {
      REQUIRE(disk.append(now, std::string(100, 'r')));
      now = now + Duration::from_seconds(1);
    }
    disk.lose_power(now, rng);
    const std::string& left = disk.bytes();
    const std::string whole = left.substr(0, left.find('\0'));
    CHECK(whole.size() >= 100 * (100 - 31));
    CHECK(left.size() <= 100 * 100);
    lost |= whole.size() < 100 * 100;
    torn |= whole.size() % 100 != 0;
    zeros |= whole.size() < left.size();
  }
  CHECK(lost);
  CHECK(torn);
  CHECK(zeros);
}

TEST_CASE("a full disk refuses, and a flipped bit is one bit") {
  JournalDisk disk;
  Rng rng(1);
  REQUIRE(disk.append({}, "record"));
  disk.set_full(true);
  CHECK(!disk.append({}, "more"));
  CHECK(disk.bytes() == "record");
  disk.flip_bit(rng);
  int bits = 0;
  for (std::size_t i = 0; i < disk.bytes().size(); ++i)
    bits += __builtin_popcount(static_cast<unsigned char>(disk.bytes()[i] ^ "record"[i]));
  CHECK(bits == 1);
}

TEST_CASE("a snapshot is there when it is whole, and not if its process ends before") {
  Events events;
  SnapshotDisk disk;
  disk.write = Duration::from_seconds(10);
  const SnapshotStorage::Hooks hooks{.saving = [](const auto&) { return std::uint64_t{0}; },
                                     .loaded = [](std::uint64_t, const auto&) {},
                                     .frozen = [] { return false; },
                                     .told = [] {}};
  const auto save = [&](SnapshotStorage& storage, std::uint64_t number, std::uint64_t keep) {
    server::ShardSnapshot snapshot;
    snapshot.info = {.run = 1, .number = number};
    storage.save(snapshot, keep);
  };
  const auto run = [&] {
    while (!events.empty()) events.run_next();
  };
  const auto numbers = [&] {
    std::vector<std::uint64_t> found;
    SnapshotStorage storage(events, disk, hooks, Bug::None);
    for (const auto& each : storage.list().snapshots) found.push_back(each.info.number);
    return found;
  };
  using Numbers = std::vector<std::uint64_t>;
  {
    SnapshotStorage storage(events, disk, hooks, Bug::None);
    for (const std::uint64_t number : {1, 2}) {
      save(storage, number, 0);
      CHECK(!storage.poll_saved());
      run();
      CHECK(storage.poll_saved());
    }
    save(storage, 3, 0);
  }
  run();
  CHECK(numbers() == Numbers{1, 2});
  {
    SnapshotStorage storage(events, disk, hooks, Bug::None);
    save(storage, 4, 1);  // number 1 is not written over
    run();
    CHECK(numbers() == Numbers{1, 4});
    disk.full = true;
    save(storage, 5, 1);
    run();
    const auto saved = storage.poll_saved();
    REQUIRE(saved);
    CHECK(!*saved);
  }
  CHECK(numbers() == Numbers{1, 4});
}

TEST_CASE("a sync takes its time, and a process that dies keeps what was synced") {
  std::set<std::size_t> left;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Events events;
    SnapshotDisk disk;
    disk.journals = true;
    disk.sync = Duration::from_seconds(1);
    int told = 0;
    const SnapshotStorage::Hooks hooks{.saving = [](const auto&) { return std::uint64_t{0}; },
                                       .loaded = [](std::uint64_t, const auto&) {},
                                       .frozen = [] { return false; },
                                       .told = [&] { ++told; }};
    {
      SnapshotStorage storage(events, disk, hooks, Bug::None);
      storage.begin_part({.run = 1, .base = 1});
      const auto add = [&](std::uint64_t save) {
        server::LogBuffer log;
        log.add(std::vector<std::byte>(8));
        storage.append(std::move(log), 1);
        storage.mark(save);
      };
      add(10);
      add(11);
      storage.sync();
      add(12);
      storage.sync();  // begins when the first one ends
      CHECK(!storage.tell_synced());
      events.run_next();
      CHECK(told == 1);
      for (const std::uint64_t save : {10, 11}) {
        const auto synced = storage.tell_synced();
        REQUIRE(synced);
        CHECK(synced->save == save);
        CHECK(storage.synced() == synced->position);
      }
      CHECK(!storage.tell_synced());
      add(13);
    }
    Rng rng(seed);
    disk.lose_unsynced(rng);
    left.insert(disk.journal.back().added.size());
  }
  CHECK(left == std::set<std::size_t>{2, 3, 4});
}

}  // namespace rubato::simulation
