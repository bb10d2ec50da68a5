// Every Storage: what was saved comes back to the bit, in another life, and two are kept. A file
// that is damaged, cut, foreign or of another version is refused by name.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/rng.hpp"
#include "server/file_storage.hpp"
#include "server/memory_storage.hpp"
#include "tests/synced_files.hpp"
#include "tests/temp_directory.hpp"

namespace rubato::server::stored {
namespace {

constexpr std::uint64_t kCluster = 0xc1;
const std::vector<float> kInitial{10, 20, 30, 40, 50};

ShardOptions options() {
  return {.chunk_bytes = 2 * sizeof(float),
          .optimizer = {.kind = OptimizerKind::Adam, .momentum = 0.5, .global_rate = 0.25},
          .average = true,
          .keeps_initial = false,
          .blank = nullptr};
}

void happen(Shard& shard, std::uint64_t what) {
  Rng rng(what);
  std::vector<float> values(5);
  for (float& value : values) value = static_cast<float>(rng.normal());
  const auto all = std::span<const float>(values);
  shard.count_update();
  shard.apply(0, all, shard.begin_update(2, 0.75));
  shard.collect(0, all, 0.5f);
  shard.count_collected(0.5);
  const WorkerId worker{static_cast<std::uint32_t>(what % 3)};
  shard.remember(worker, 0, all, {.by = 0.5f});
  shard.remember(worker, 0, all, {.by = 0.25f, .keep = 0.5f, .later = true});
  shard.for_evaluator();
  if (what % 2 == 0) shard.keep();
}

ShardSnapshot snapshot_of(Shard& shard, std::uint64_t number, Incarnation run = 7) {
  return {.cluster = kCluster,
          .info = {.run = run, .number = number, .commits = 100 * number},
          .range = {5, 10},
          .settings = "sync = asp\nseed = 1\n",
          .phase = 3,
          .state = shard.state()};
}

Result<void> save(Storage& storage, ShardSnapshot snapshot, std::uint64_t keep = 0) {
  storage.save(std::move(snapshot), keep);
  while (true) {
    if (auto done = storage.poll_saved()) return *done;
    std::this_thread::yield();
  }
}

std::unique_ptr<Storage> in_directory(const std::string& directory,
                                      std::uint64_t cluster = kCluster) {
  auto storage = open_storage({.directory = directory, .server = "server-1", .cluster = cluster});
  REQUIRE(storage);
  return std::move(*storage);
}

// `life(cluster)`: a storage of the same shard, in its next process.
void check_storage(const std::function<std::unique_ptr<Storage>(std::uint64_t)>& life) {
  Shard shard(options(), kInitial);
  for (std::uint64_t i = 0; i < 20; ++i) happen(shard, i);
  CHECK(life(kCluster)->list().snapshots.empty());
  {
    const auto storage = life(kCluster);
    CHECK_FALSE(storage->poll_saved());
    for (std::uint64_t number = 1; number <= 5; ++number) {
      happen(shard, 100 + number);
      REQUIRE(save(*storage, snapshot_of(shard, number)));
      CHECK_FALSE(storage->poll_saved());
    }
  }
  auto storage = life(kCluster);
  const auto found = storage->list();
  CHECK(found.refused.empty());
  REQUIRE(found.snapshots.size() == kSnapshotsKept);
  CHECK(found.snapshots[0].info == proto::SnapshotInfo{7, 4, 400});
  CHECK(found.snapshots[1].info == proto::SnapshotInfo{7, 5, 500});

  const auto loaded = storage->load(found.snapshots[1].info);
  REQUIRE(loaded);
  CHECK(loaded->cluster == kCluster);
  CHECK(loaded->range == ElementRange{5, 10});
  CHECK(loaded->settings == "sync = asp\nseed = 1\n");
  CHECK(loaded->phase == 3);
  Shard next(options(), loaded->state);
  for (std::uint64_t i = 200; i < 240; ++i) {
    happen(shard, i);
    happen(next, i);
    if (i % 7 == 0) {
      shard.flush();
      next.flush();
      shard.apply_remembered(2);
      next.apply_remembered(2);
    }
    if (i == 230) {
      shard.restore(1);
      next.restore(1);
    }
    CHECK(next.parameters().values() == shard.parameters().values());
    CHECK(next.for_evaluator().values() == shard.for_evaluator().values());
    CHECK(next.version() == shard.version());
  }
  // The one that all servers have stays, however many follow.
  for (std::uint64_t number = 6; number <= 8; ++number)
    REQUIRE(save(*storage, snapshot_of(shard, number), 5));
  storage.reset();
  storage = life(kCluster);
  const auto two = storage->list().snapshots;
  REQUIRE(two.size() == kSnapshotsKept);
  CHECK(two[0].info.number == 5);
  CHECK(two[1].info.number == 8);
  // Two are kept whatever their run, and another cluster's are not for this one.
  REQUIRE(save(*storage, snapshot_of(shard, 1, 8)));
  storage.reset();
  CHECK(life(kCluster)->list().snapshots.size() == kSnapshotsKept);
  const auto foreign = life(kCluster + 1)->list();
  CHECK(foreign.snapshots.empty());
  REQUIRE(foreign.refused.size() == kSnapshotsKept);
  CHECK(foreign.refused[0].find("another cluster") != std::string::npos);
}

TEST_CASE("storage: what was saved comes back in another life, in memory") {
  const auto kept = std::make_shared<KeptSnapshots>();
  check_storage(
      [&](std::uint64_t cluster) { return std::make_unique<MemoryStorage>(kept, cluster); });
}

TEST_CASE("storage: what was saved comes back in another life, in files") {
  const TempDirectory directory;
  check_storage(
      [&](std::uint64_t cluster) { return in_directory(directory.path("state"), cluster); });
  for (const auto& entry : std::filesystem::directory_iterator(directory.path("state")))
    CHECK_MESSAGE(entry.path().extension() != ".tmp", entry.path());  // nothing half written
}

TEST_CASE("storage: a shard that goes on while it is written changes nothing in the file") {
  const TempDirectory directory;
  Shard shard(options(), kInitial);
  for (std::uint64_t i = 0; i < 20; ++i) happen(shard, i);
  const auto parameters = shard.parameters().values();
  const auto storage = in_directory(directory.path());
  storage->save(snapshot_of(shard, 1), 0);
  for (std::uint64_t i = 0; i < 2000; ++i) happen(shard, i);
  while (!storage->poll_saved()) std::this_thread::yield();
  const auto loaded = storage->load({7, 1, 100});
  REQUIRE(loaded);
  CHECK(Shard(options(), loaded->state).parameters().values() == parameters);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

TEST_CASE("storage: any flipped bit and any cut is found, and the line names the file") {
  const TempDirectory directory;
  Shard shard(options(), kInitial);
  happen(shard, 1);
  REQUIRE(save(*in_directory(directory.path()), snapshot_of(shard, 1)));
  const std::string path = directory.path("server-1.0.snapshot");
  const std::string whole = bytes_of(path);
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto all = in_directory(directory.path())->list();
    CHECK(all.snapshots.empty());
    REQUIRE(all.refused.size() == 1);
    CHECK(all.refused[0].starts_with(path + ": "));
    CHECK(all.refused[0].find('\n') == std::string::npos);
    return all.refused[0];
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    refused(flipped);
  }
  for (std::size_t length = 0; length < whole.size(); length += 7) refused(whole.substr(0, length));
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(~damaged[whole.size() / 2]);
  CHECK(refused(damaged).ends_with(": fails its checksum: it is damaged"));
  std::string later = whole;
  later[8] = 3;
  CHECK(refused(later).ends_with(": is a snapshot of another version of rubato"));
}

TEST_CASE("storage: a directory that is gone, or full, is one line, and the next one is written") {
  const TempDirectory directory;
  Shard shard(options(), kInitial);
  const auto storage = in_directory(directory.path("state"));
  std::filesystem::remove_all(directory.path("state"));
  const auto done = save(*storage, snapshot_of(shard, 1));
  REQUIRE_FALSE(done);
  CHECK(done.error().code == ErrorCode::Io);
  CHECK(done.error().message.starts_with("cannot write " + directory.path("state")));
  std::filesystem::create_directories(directory.path("state"));
  CHECK(save(*storage, snapshot_of(shard, 2)));
}

TEST_CASE("storage: a full disk is one line") {
  if (!std::filesystem::exists("/dev/full")) return;
  const TempDirectory directory;
  std::filesystem::create_symlink("/dev/full", directory.path("server-1.0.snapshot.tmp"));
  Shard shard(options(), kInitial);
  const auto done = save(*in_directory(directory.path()), snapshot_of(shard, 1));
  REQUIRE_FALSE(done);
  CHECK(done.error().message.ends_with("No space left on device"));
}

TEST_CASE("storage: one process at a time has a server's files") {
  const TempDirectory directory;
  const FileStorageOptions options{directory.path(), "server-1", 1};
  auto first = open_storage(options);
  REQUIRE(first);
  const auto second = open_storage(options);
  REQUIRE_FALSE(second);
  CHECK(second.error().code == ErrorCode::BadInput);
  CHECK(second.error().message ==
        "--state " + directory.path() +
            ": another process is server 'server-1' with this directory; wait for its end, or name "
            "another directory");
  CHECK(open_storage({directory.path(), "server-2", 1}));
  first->reset();
  CHECK(open_storage(options));
}

TEST_CASE("storage: a name that cannot name a file is refused") {
  for (const char* name : {"", "tcp://10.0.0.1:5700", ".hidden"}) {
    const auto opened = open_storage({.directory = "/tmp", .server = name, .cluster = 1});
    REQUIRE_FALSE(opened);
    CHECK(opened.error().code == ErrorCode::BadInput);
  }
}

// --- the journal ---------------------------------------------------------------------------------

LogBuffer log_of(const std::string& text) {
  LogBuffer log;
  log.add(std::as_bytes(std::span(text)));
  return log;
}

void wait_until_synced(Storage& storage, std::uint64_t position) {
  storage.sync();
  while (true) {
    const auto synced = storage.synced();
    REQUIRE(synced);
    if (*synced >= position) return;
    std::this_thread::yield();
  }
}

struct Told {
  std::string all;
  std::uint64_t commits = 0;
  bool whole = false;
  std::vector<std::string> lines;
};
Told replayed(Storage& storage, std::uint64_t number, std::uint32_t setbacks = 0,
              Incarnation run = 7) {
  Told told;
  const auto found = storage.replay(
      {run, number, 100 * number}, setbacks, [&](std::span<const std::byte> log) -> Result<void> {
        told.all.append(reinterpret_cast<const char*>(log.data()), log.size());
        return {};
      });
  told.commits = found.commits;
  told.lines = found.lines;
  told.whole = found.whole;
  return told;
}

// `life()`: a storage with a journal, in its next process.
void check_journal(const std::function<std::unique_ptr<Storage>()>& life) {
  Shard shard(options(), kInitial);
  std::unique_ptr<Storage> storage;
  const auto next_life = [&] {
    storage.reset();  // one process at a time
    storage = life();
  };
  next_life();
  REQUIRE(storage->journals());
  CHECK(storage->list().snapshots.empty());
  storage->begin_part({.run = 7, .continues = false});
  storage->append(log_of("lost "), 1);  // before any snapshot
  for (std::uint64_t number = 1; number <= 2; ++number) {
    storage->begin_part({.run = 7, .base = number});
    REQUIRE(save(*storage, snapshot_of(shard, number)));
    storage->append(log_of("a" + std::to_string(number) + " "), 2);
    wait_until_synced(*storage, storage->append({}, 1));
  }
  next_life();
  auto found = storage->list().snapshots;
  REQUIRE(found.size() == 2);
  CHECK(found[0].journal_commits == 6);
  CHECK(found[1].journal_commits == 3);
  CHECK(replayed(*storage, 1).all == "a1 a2 ");
  CHECK(replayed(*storage, 2).all == "a2 ");
  CHECK(replayed(*storage, 2).commits == 3);
  CHECK(replayed(*storage, 2).whole);
  CHECK(replayed(*storage, 2, 1).all.empty());  // the run went back meanwhile
  CHECK_FALSE(replayed(*storage, 2, 1).whole);
  CHECK(replayed(*storage, 2, 0, 8).all.empty());
  // The next life goes on behind it, and the one after sees both.
  storage->begin_part({.run = 7});
  wait_until_synced(*storage, storage->append(log_of("b "), 1));
  next_life();
  CHECK(storage->list().snapshots[1].journal_commits == 4);
  CHECK(replayed(*storage, 2).all == "a2 b ");
  // All shards go back to snapshot 2: what came after it before is not used again.
  storage->begin_part({.run = 7, .base = 2, .setbacks = 1, .continues = false});
  wait_until_synced(*storage, storage->append(log_of("c "), 1));
  next_life();
  storage->list();
  CHECK(replayed(*storage, 2, 1).all == "c ");
  CHECK(replayed(*storage, 2, 0).all.empty());
  // A part that does not go on from the one before ends what goes before.
  storage->begin_part({.run = 7, .setbacks = 1, .continues = false});
  wait_until_synced(*storage, storage->append(log_of("d "), 1));
  next_life();
  storage->list();
  CHECK(replayed(*storage, 2, 1).all == "c ");
}

TEST_CASE("storage: a journal leads on from each snapshot, in memory") {
  const auto kept = std::make_shared<KeptSnapshots>();
  const auto journal = std::make_shared<KeptJournal>();
  check_journal([&] { return std::make_unique<MemoryStorage>(kept, kCluster, journal); });
}

std::unique_ptr<Storage> with_journal(const std::string& directory) {
  auto storage = open_storage(
      {.directory = directory, .server = "server-1", .cluster = kCluster, .journal = true});
  REQUIRE(storage);
  return std::move(*storage);
}

TEST_CASE("storage: a journal leads on from each snapshot, in files") {
  const TempDirectory directory;
  check_journal([&] { return with_journal(directory.path("state")); });
}

std::size_t journals_in(const std::string& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    if (entry.path().extension() == ".journal") ++count;
  return count;
}

TEST_CASE("storage: parts that no snapshot needs are removed") {
  const TempDirectory directory;
  Shard shard(options(), kInitial);
  const auto storage = with_journal(directory.path());
  storage->list();
  storage->begin_part({.run = 7, .continues = false});
  for (std::uint64_t number = 1; number <= 10; ++number) {
    storage->begin_part({.run = 7, .base = number});
    storage->save(snapshot_of(shard, number), 0);
    wait_until_synced(*storage, storage->append(log_of("x"), 1));
    while (!storage->poll_saved()) std::this_thread::yield();
    CHECK(journals_in(directory.path()) <= kSnapshotsKept + 1);
  }
  CHECK(journals_in(directory.path()) == kSnapshotsKept);
}

TEST_CASE("storage: a journal that was cut or damaged is used as far as it is whole") {
  const TempDirectory directory;
  Shard shard(options(), kInitial);
  {
    const auto storage = with_journal(directory.path());
    storage->list();
    storage->begin_part({.run = 7, .continues = false});
    storage->begin_part({.run = 7, .base = 1});
    REQUIRE(save(*storage, snapshot_of(shard, 1)));
    std::uint64_t last = 0;
    for (const char* each : {"one ", "two ", "three "}) last = storage->append(log_of(each), 1);
    wait_until_synced(*storage, last);
  }
  const std::string path = directory.path("server-1.1.journal");
  const std::string whole = bytes_of(path);
  const auto with = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto storage = with_journal(directory.path());
    const auto found = storage->list();
    REQUIRE(found.snapshots.size() == 1);
    auto told = replayed(*storage, 1);
    CHECK(told.commits == found.snapshots[0].journal_commits);
    CHECK(std::string("one two three ").starts_with(told.all));
    for (const std::string& line : found.refused) CHECK(line.starts_with(path));
    return told;
  };
  CHECK(with(whole).all == "one two three ");
  CHECK(with(whole).lines.empty());
  CHECK(whole.size() == 4 * LogBuffer::kBlockBytes);  // a head, and three additions
  for (std::size_t length = 0; length < whole.size(); length += 301) with(whole.substr(0, length));
  for (std::size_t at = 0; at < whole.size(); at += at % LogBuffer::kBlockBytes < 100 ? 1 : 199) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
    CHECK(with(flipped).all != "one two three ");
  }
  // A loss of power may leave zeros, or the end of another file, where an addition was to be.
  for (const std::string& behind : {std::string(8192, '\0'), whole.substr(4096)})
    CHECK(with(whole.substr(0, 8192) + behind).all == "one ");
  const auto cut = with(whole.substr(0, whole.size() - 1));
  CHECK(cut.all == "one two ");
  REQUIRE(cut.lines.size() == 1);
  CHECK(cut.lines[0].starts_with(path + ": the last 4095 bytes are not whole"));
  // The next life goes on from there. If more of the file is gone later, its part is not used.
  {
    const auto storage = with_journal(directory.path());
    storage->list();
    storage->begin_part({.run = 7});
    wait_until_synced(*storage, storage->append(log_of("four "), 1));
  }
  {
    const auto storage = with_journal(directory.path());
    storage->list();
    CHECK(replayed(*storage, 1).all == "one two four ");
  }
  std::string damaged = whole.substr(0, whole.size() - 1);
  damaged[5000] = static_cast<char>(~damaged[5000]);
  std::ofstream(path, std::ios::binary) << damaged;
  const auto storage = with_journal(directory.path());
  storage->list();
  const auto told = replayed(*storage, 1);
  CHECK(told.all.find("four") == std::string::npos);
  CHECK_FALSE(told.whole);
  REQUIRE_FALSE(told.lines.empty());
  CHECK(told.lines.back().find("server-1.2.journal: does not follow") != std::string::npos);
}

// A life with a snapshot and two parts behind it, which was killed. Returns: its directory.
void live_and_die(const std::string& directory, Incarnation run = 7) {
  Shard shard(options(), kInitial);
  const auto storage = with_journal(directory);
  storage->list();
  storage->begin_part({.run = run, .continues = false});
  storage->begin_part({.run = run, .base = 1});
  REQUIRE(save(*storage, snapshot_of(shard, 1, run)));
  wait_until_synced(*storage, storage->append(log_of("one "), 1));
  storage->begin_part({.run = run});
  wait_until_synced(*storage, storage->append(log_of("two "), 1));
}

// It may lie in the system's cache only: the power goes, and what others have heard of is gone.
TEST_CASE("storage: what a process goes on from is on the disk before anybody hears of it") {
  const TempDirectory directory;
  const std::string state = std::filesystem::canonical(directory.path()) / "state";
  live_and_die(state);
  const auto storage = with_journal(state);
  SyncedFiles::take();
  REQUIRE(storage->list().snapshots.size() == 1);
  const auto synced = SyncedFiles::take();
  for (const char* name : {"server-1.0.snapshot", "server-1.1.journal", "server-1.2.journal"})
    CHECK_MESSAGE(synced.contains(state + "/" + name), std::string(name));
  CHECK(synced.contains(state));
}

TEST_CASE("storage: the name of the directory itself outlasts a loss of power") {
  const TempDirectory directory;
  const std::string above = std::filesystem::canonical(directory.path());
  for (int life = 0; life < 2; ++life) {  // the first one may have died before the sync
    SyncedFiles::take();
    with_journal(above + "/a/b");
    const auto synced = SyncedFiles::take();
    CHECK(synced.contains(above + "/a"));
    CHECK((life > 0 || synced.contains(above)));
  }
}

TEST_CASE("storage: what cannot be synced is not used, and a line says so") {
  const TempDirectory directory;
  const std::string state = std::filesystem::canonical(directory.path()) / "state";
  live_and_die(state);
  struct Case {
    std::string path;
    std::size_t snapshots, lines;
    std::string replayed;
  };
  for (const Case& each : std::vector<Case>{{state + "/server-1.0.snapshot", 0, 1, ""},
                                            {state + "/server-1.2.journal", 1, 1, "one "},
                                            {state + "/server-1.1.journal", 1, 1, ""},
                                            {state, 0, 1, ""}}) {
    CAPTURE(each.path);
    SyncedFiles::fail(each.path);
    const auto storage = with_journal(state);
    const auto found = storage->list();
    SyncedFiles::fail("");
    CHECK(found.snapshots.size() == each.snapshots);
    REQUIRE(found.refused.size() == each.lines);
    CHECK(found.refused[0].find(each.path) != std::string::npos);
    CHECK(found.refused[0].ends_with(": Input/output error"));
    if (found.snapshots.empty()) continue;
    CHECK(replayed(*storage, 1).all == each.replayed);
    CHECK_FALSE(replayed(*storage, 1).whole);
  }
}

TEST_CASE("storage: no part is written over that may hold answered commits") {
  const TempDirectory directory;
  live_and_die(directory.path());
  const std::string last = directory.path("server-1.2.journal");
  std::string bytes = bytes_of(last);
  bytes[100] = static_cast<char>(~bytes[100]);  // in its head
  std::ofstream(last, std::ios::binary) << bytes;
  {
    const auto storage = with_journal(directory.path());
    CHECK(storage->list().refused.size() == 1);
    CHECK(replayed(*storage, 1).all == "one ");
    CHECK_FALSE(replayed(*storage, 1).whole);  // a part that begins now does not follow
    storage->begin_part({.run = 7, .continues = false});
    wait_until_synced(*storage, storage->append(log_of("new "), 1));
  }
  CHECK(bytes_of(last) == bytes);
  CHECK(std::filesystem::exists(directory.path("server-1.3.journal")));
  // A process that died before its part had a head has promised nothing in it.
  std::ofstream(directory.path("server-1.4.journal"), std::ios::binary) << "RB";
  const auto storage = with_journal(directory.path());
  storage->list();
  storage->begin_part({.run = 7, .continues = false});
  wait_until_synced(*storage, storage->append(log_of("new "), 1));
  CHECK(std::filesystem::file_size(directory.path("server-1.4.journal")) > 4096);
}

TEST_CASE("storage: what decays after the inventory is not counted as replayed") {
  const TempDirectory directory;
  live_and_die(directory.path());
  const std::string last = directory.path("server-1.2.journal");
  const auto storage = with_journal(directory.path());
  CHECK(storage->list().snapshots[0].journal_commits == 2);
  std::string bytes = bytes_of(last);
  bytes[5000] = static_cast<char>(~bytes[5000]);
  std::ofstream(last, std::ios::binary) << bytes;
  const auto told = replayed(*storage, 1);
  CHECK(told.all == "one ");
  CHECK(told.commits == 1);
  CHECK_FALSE(told.whole);
  REQUIRE(told.lines.size() == 1);
  CHECK(told.lines[0] ==
        last + ": was damaged after it was read first: what is behind byte 4096 is lost");
}

TEST_CASE("storage: journals of other runs go once all servers have a snapshot of the new run") {
  for (const bool journal : {true, false}) {
    CAPTURE(journal);
    const TempDirectory directory;
    for (const Incarnation run : {5, 6}) live_and_die(directory.path(), run);
    std::ofstream(directory.path("server-1.90.journal")) << std::string(5000, 'x');
    std::ofstream(directory.path("server-10.0.journal")) << std::string(5000, 'x');
    constexpr std::size_t kOthers = 2;  // that are not this server's to remove
    CHECK(journals_in(directory.path()) == 4 + kOthers);
    Shard shard(options(), kInitial);
    auto storage = open_storage({.directory = directory.path(),
                                 .server = "server-1",
                                 .cluster = kCluster,
                                 .journal = journal});
    REQUIRE(storage);
    (*storage)->list();
    for (std::uint64_t number = 1; number <= 3; ++number) {
      if (journal) (*storage)->begin_part({.run = 7, .base = number});
      REQUIRE(save(**storage, snapshot_of(shard, number), number < 3 ? 0 : 2));
      const std::size_t old = number < 3 ? 4 : 0;
      const std::size_t own = journal ? std::min<std::size_t>(number, kSnapshotsKept) : 0;
      CHECK(journals_in(directory.path()) == old + own + kOthers);
    }
  }
}

// Else another life might find the snapshot without what came after it. A pipe that nobody reads
// yet is a disk that stands still.
TEST_CASE("storage: a snapshot is not there before the part that goes on from it") {
  const TempDirectory directory;
  const std::string part = directory.path("server-1.0.journal");
  Shard shard(options(), kInitial);
  const auto storage = with_journal(directory.path());
  storage->list();
  REQUIRE(::mkfifo(part.c_str(), 0600) == 0);
  storage->begin_part({.run = 7, .base = 1});
  storage->save(snapshot_of(shard, 1), 0);
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  CHECK_FALSE(storage->poll_saved());
  CHECK_FALSE(std::filesystem::exists(directory.path("server-1.0.snapshot")));
  // It is told that a pipe is no disk.
  const int reader = ::open(part.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  std::optional<Result<void>> saved;
  while (!(saved = storage->poll_saved())) std::this_thread::yield();
  REQUIRE_FALSE(*saved);
  CHECK(saved->error().message.starts_with("cannot sync the journal " + part));
  CHECK_FALSE(std::filesystem::exists(directory.path("server-1.0.snapshot")));
  ::close(reader);
}

TEST_CASE("storage: a journal on a full disk is one line, and nothing after it is acknowledged") {
  if (!std::filesystem::exists("/dev/full")) return;
  const TempDirectory directory;
  const auto storage = with_journal(directory.path());
  storage->list();
  std::filesystem::create_symlink("/dev/full", directory.path("server-1.0.journal"));
  storage->begin_part({.run = 7, .continues = false});
  storage->append(log_of("x"), 1);
  while (true) {
    const auto synced = storage->synced();
    if (!synced) {
      CHECK(synced.error().code == ErrorCode::Io);
      CHECK(synced.error().message == "cannot write the journal " +
                                          directory.path("server-1.0.journal") +
                                          ": No space left on device");
      return;
    }
    REQUIRE(*synced == 0);
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace rubato::server::stored
