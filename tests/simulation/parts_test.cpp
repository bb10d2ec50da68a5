// The simulated network and disks behave as they say.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "server/file_storage.hpp"
#include "tests/base/disk_suite.hpp"
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

// --- disks ---------------------------------------------------------------------------------------

namespace {

struct Machine {
  Events events;
  MachineDisk disk{events};
  Rng rng{1};

  void run() {
    while (!events.empty()) events.run_next();
  }
  void run_until(const std::function<bool()>& holds) {
    while (!holds() && !events.empty()) events.run_next();
    CHECK(holds());
  }
  std::unique_ptr<DiskFile> open(ProcessDisk& process, const std::string& path, Disk::Open how) {
    auto file = process.open(path, how);
    REQUIRE(file);
    return std::move(*file);
  }
};

server::ShardSnapshot snapshot_of(std::uint64_t number, Incarnation run = 1) {
  return {.cluster = 1,
          .info = {.run = run, .number = number, .commits = 10 * number},
          .range = {},
          .settings = {},
          .state = {}};
}

}  // namespace

TEST_CASE("disk: the simulated one keeps the promises of a disk") {
  Machine machine;
  ProcessDisk one(machine.disk, {}, 1), other(machine.disk, {}, 2);
  check_disk(one, other, "state", [&](const auto& holds) { machine.run_until(holds); });
}

TEST_CASE("a loss of power leaves what was synced, and any part of what was not") {
  const std::string before(4096, 'a'), after(2048, 'b');
  bool lost = false, kept = false, torn = false, mixed = false, zeros = false, renamed = false,
       named = false;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Machine machine;
    machine.rng = Rng(seed);
    ProcessDisk process(machine.disk, {}, seed);
    {
      const auto file = machine.open(process, "state/x", Disk::Open::Create);
      REQUIRE(write_text(*file, before));
      REQUIRE(file->sync());
      REQUIRE(process.sync_directory("state"));
      REQUIRE(write_text(*file, after));
      REQUIRE(write_text(*machine.open(process, "state/y.tmp", Disk::Open::Create), "new"));
      REQUIRE(process.rename("state/y.tmp", "state/y"));
    }
    process.kill();
    CHECK(machine.disk.bytes_of("state/x") == before + after);  // a kill alone loses nothing
    CHECK(machine.disk.bytes_of("state/y") == "new");
    machine.disk.lose_power(machine.rng);
    const std::string left = machine.disk.bytes_of("state/x");
    REQUIRE(left.size() <= before.size() + after.size());
    CHECK(left.substr(0, before.size()) == before);
    const std::string tail = left.substr(before.size());
    for (const char each : tail) CHECK((each == 'b' || each == 0));
    lost |= tail.empty();
    kept |= tail == after;
    torn |= !tail.empty() && tail.size() < after.size();
    zeros |= tail.find(char{0}) != tail.npos;
    mixed |= tail.find(std::string(1, char{0}) + "b") != tail.npos;
    ProcessDisk next(machine.disk, {}, 1);
    named |= next.exists("state/y");
    renamed |= next.exists("state/y.tmp");
  }
  for (const bool seen : {lost, kept, torn, mixed, zeros, named, renamed}) CHECK(seen);
}

TEST_CASE("a disk has everything after half a minute") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Machine machine;
    machine.rng = Rng(seed);
    ProcessDisk process(machine.disk, {}, seed);
    const auto file = machine.open(process, "state/x", Disk::Open::Append);
    for (int second = 0; second < 100; ++second) {
      REQUIRE(write_text(*file, std::string(100, 'r')));
      machine.events.advance(machine.events.now() + Duration::from_seconds(1));
    }
    machine.disk.lose_power(machine.rng);
    const std::string left = machine.disk.bytes_of("state/x");
    CHECK(left.substr(0, left.find(char{0})).size() >= 100 * (100 - 31));
  }
}

TEST_CASE("a full or read-only disk refuses, a flipped bit is one bit, a block lands elsewhere") {
  Machine machine;
  ProcessDisk process(machine.disk, {}, 1);
  const auto file = machine.open(process, "state/x", Disk::Open::Append);
  const std::string text(10'000, 'r');
  REQUIRE(write_text(*file, text));
  machine.disk.read_only = true;
  CHECK_FALSE(write_text(*file, "more"));
  CHECK_FALSE(file->sync());
  CHECK_FALSE(process.sync_directory("state"));
  CHECK(process.open("state/y", Disk::Open::Create).error().code == ErrorCode::Io);
  CHECK(machine.disk.bytes_of("state/x") == text);
  machine.disk.read_only = false;
  machine.disk.full = true;
  CHECK(write_text(*file, "more").error().message == "No space left on device");
  CHECK(machine.disk.bytes_of("state/x").size() < text.size() + 4);
  machine.disk.full = false;
  REQUIRE(file->truncate(text.size()));
  machine.disk.flip_bit(machine.rng);
  int bits = 0;
  const std::string flipped = machine.disk.bytes_of("state/x");
  for (std::size_t i = 0; i < text.size(); ++i)
    bits += __builtin_popcount(static_cast<unsigned char>(flipped[i] ^ text[i]));
  CHECK(bits == 1);
  machine.disk.misdirected = 1;
  const auto other = machine.open(process, "state/y", Disk::Open::Create);
  REQUIRE(write_text(*other, std::string(4096, 'm')));
  CHECK(machine.disk.bytes_of("state/y") == std::string(4096, char{0}));
  CHECK(machine.disk.bytes_of("state/x").find("mm") != std::string::npos);
}

TEST_CASE("a turn takes its time, a frozen process ends none, and one that is killed breaks off") {
  std::set<std::size_t> written;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Machine machine;
    machine.disk.sync = Duration::from_seconds(2);
    bool frozen = true;
    int told = 0;
    ProcessDisk process(machine.disk, {[&] { return frozen; }, [&] { ++told; }}, seed);
    const auto file = machine.open(process, "state/x", Disk::Open::Append);
    int turns = 2;
    auto work = process.begin_turns({"journal", [&] { return turns-- > 0; },
                                     [&] {
                                       for (int i = 0; i < 4; ++i) (void)write_text(*file, "wr");
                                     }});
    work->ask();
    machine.events.at(Instant{} + Duration::from_seconds(60), [&] { frozen = false; });
    machine.run_until([&] { return told == 1; });
    CHECK(machine.events.now() >= Instant{} + Duration::from_seconds(62));
    CHECK(machine.disk.bytes_of("state/x").size() == 8);
    machine.events.run_next();  // the second one is taken
    process.kill();
    written.insert(machine.disk.bytes_of("state/x").size());
    work.reset();
    CHECK(told == 1);
  }
  CHECK(*written.begin() == 8);
  CHECK(*written.rbegin() == 16);
  CHECK(written.size() > 6);  // also in the middle of a write
}

TEST_CASE("the record knows which save and which addition come back, in any life") {
  Machine machine;
  StorageRecord record(machine.disk, "server-0", 1);
  std::uint64_t saves = 0, loaded = 0;
  int wrong = 0;
  std::unique_ptr<ProcessDisk> process;
  std::unique_ptr<WatchedStorage> storage;
  const auto begin = [&] {
    storage.reset();
    process = std::make_unique<ProcessDisk>(machine.disk, ProcessDisk::Hooks{}, 1);
    auto opened = server::open_storage({.directory = "state",
                                        .server = "server-0",
                                        .cluster = 1,
                                        .journal = true,
                                        .disk = process.get()});
    REQUIRE(opened);
    storage = std::make_unique<WatchedStorage>(
        std::move(*opened), record,
        WatchedStorage::Hooks{.saving = [&](const auto&) { return ++saves; },
                              .loaded = [&](std::uint64_t, std::uint64_t save) { loaded = save; },
                              .wrong = [&](const std::string&) { ++wrong; }},
        Bug::None);
    storage->list();
  };
  const auto add = [&](std::uint64_t save) {
    server::LogBuffer log;  // all logs are alike
    log.add(std::vector<std::byte>(8));
    storage->append(std::move(log), 1);
    storage->mark(save);
    storage->sync();
    machine.run();
  };
  const auto replayed = [&](std::uint64_t number) {
    REQUIRE(storage->load({.run = 1, .number = number, .commits = 10 * number}));
    return storage->replay({.run = 1, .number = number}, 0, [](auto) { return Result<void>(); });
  };
  begin();
  storage->begin_part({.run = 1, .continues = false});
  add(100);
  CHECK_FALSE(storage->tell_synced());  // no snapshot leads there
  storage->begin_part({.run = 1, .base = 1});
  storage->save(snapshot_of(1), 0);
  machine.run();
  REQUIRE(storage->poll_saved());
  CHECK(storage->tell_synced()->save == 100);
  add(101);
  CHECK(storage->tell_synced()->save == 101);
  CHECK(storage->synced() == std::uint64_t{2});
  CHECK_FALSE(storage->tell_synced());
  storage->begin_part({.run = 1, .base = 2});
  storage->save(snapshot_of(2), 0);
  add(102);
  REQUIRE(record.on_disk().size() == 2);
  CHECK(record.on_disk()[1].save == 2);
  begin();
  CHECK(replayed(1).commits == 2);
  CHECK(loaded == 1);
  CHECK(storage->replayed() == std::uint64_t{102});
  CHECK(replayed(2).commits == 1);
  CHECK(loaded == 2);
  CHECK(storage->replayed() == std::uint64_t{102});
  storage->begin_part({.run = 1});
  add(103);
  begin();
  CHECK(replayed(2).whole);
  CHECK(storage->replayed() == std::uint64_t{103});
  CHECK(wrong == 0);
  process->kill();
}

}  // namespace rubato::simulation
