// With a journal a commit is answered once it is on disk, and the next life has every commit that
// was answered: the same bits, whatever the sync model and the optimizer.
#include <doctest/doctest.h>

#include <limits>

#include "sync/keeping_gate.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

// A MemoryStorage whose disk is as slow as the test wants.
class SlowStorage final : public Storage {
 public:
  struct Disk {
    std::shared_ptr<KeptSnapshots> kept = std::make_shared<KeptSnapshots>();
    std::shared_ptr<KeptJournal> journal = std::make_shared<KeptJournal>();
    bool asked = false;           // to sync
    bool slow = false;            // nothing more of the journal is synced
    bool slow_snapshots = false;  // no snapshot is told to be on disk
    bool full = false;
  };
  explicit SlowStorage(std::shared_ptr<Disk> disk)
      : disk_(std::move(disk)), storage_(disk_->kept, kCluster, disk_->journal) {}

  Inventory list() override { return storage_.list(); }
  Result<ShardSnapshot> load(const proto::SnapshotInfo& info) override {
    return storage_.load(info);
  }
  void save(ShardSnapshot snapshot, std::uint64_t keep) override {
    storage_.save(std::move(snapshot), keep);
  }
  std::optional<Result<void>> poll_saved() override {
    return disk_->slow_snapshots ? std::nullopt : storage_.poll_saved();
  }
  bool journals() const override { return true; }
  void begin_part(const Part& part) override { storage_.begin_part(part); }
  std::uint64_t append(LogBuffer log, std::uint64_t commits) override {
    return storage_.append(std::move(log), commits);
  }
  void sync() override { disk_->asked = true; }
  Result<std::uint64_t> synced() override {
    if (disk_->full) return fail(ErrorCode::Io, "cannot write the journal: No space left");
    if (!disk_->slow && disk_->asked) synced_ = *storage_.synced();
    return synced_;
  }
  Replayed replay(const proto::SnapshotInfo& info, std::uint32_t setbacks,
                  const Replay& f) override {
    return storage_.replay(info, setbacks, f);
  }

 private:
  std::shared_ptr<Disk> disk_;
  MemoryStorage storage_;
  std::uint64_t synced_ = 0;
};

using DiskPtr = std::shared_ptr<SlowStorage::Disk>;

ServerSetup journaled(const DiskPtr& disk, std::uint64_t snapshot = 0,
                      const std::string& sync = "asp",
                      OptimizerOptions optimizer = {.global_rate = 1.0}) {
  ServerSetup setup;
  setup.sync = sync;
  setup.optimizer = optimizer;
  setup.snapshot = snapshot;
  setup.storage = [disk] { return std::make_unique<SlowStorage>(disk); };
  return setup;
}

std::string lines_of(ServerCore& core) {
  std::string all;
  while (const auto line = core.poll_log()) all += *line + "\n";
  return all;
}

std::size_t answers(ServerWorld& world) {
  return tests::bodies<proto::Parameters>(tests::sent(world.core), peer_of(0)).size();
}

TEST_CASE("journal: the next life has every commit, and those of the life after, too") {
  for (const auto kind : {OptimizerKind::Sgd, OptimizerKind::Nesterov, OptimizerKind::Adam}) {
    for (const char* sync : {"asp", "bsp", "fedbuff", "ace", "adsp", "tempo"}) {
      CAPTURE(std::string(sync));
      const auto disk = std::make_shared<SlowStorage::Disk>();
      const OptimizerOptions optimizer{.kind = kind, .momentum = 0.5, .global_rate = 0.5};
      Values expected;
      std::uint64_t commits = 0;
      Version version = 0;
      for (std::uint64_t life = 0; life < 3; ++life) {
        auto setup = journaled(disk, life == 0 ? 0 : 1, sync, optimizer);
        setup.average = std::string(sync) == "tempo";
        ServerWorld world(setup);
        if (life > 0) {
          CHECK(world.parameters() == expected);
          CHECK(world.core.commits() == commits);
          CHECK(world.core.version() == version);
        }
        world.members(1, {0, 1});
        if (life == 0) world.from_scheduler(proto::Save{1});
        for (Sequence sequence = 2; sequence < 6; ++sequence) {
          for (const std::uint32_t worker : {0, 1}) {
            Values update(5);
            for (std::size_t i = 0; i < update.size(); ++i)
              update[i] = 0.1f * static_cast<float>((i + 3) * sequence + worker + life);
            world.commit(worker, sequence, update);
            tests::sent(world.core);
          }
        }
        expected = world.parameters();
        commits = world.core.commits();
        version = world.core.version();
      }
      CHECK(commits == 24);
    }
  }
}

TEST_CASE("journal: an answer waits for the disk, and what waits is not counted as kept") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  ServerWorld world(journaled(disk));
  world.members(1, {0});
  world.from_scheduler(proto::Save{1});
  tests::sent(world.core);
  disk->slow = true;
  const auto chunks = world.chunks(0, 2, kOnes);
  REQUIRE(chunks.size() == 3);
  // The worker has no answer to its commit while it lacks the last one.
  for (const std::size_t i : {0, 0, 1}) {
    world.hear(chunks[i]);
    CHECK(answers(world) == 1);
  }
  world.hear(chunks[2]);
  CHECK(answers(world) == 0);
  CHECK(world.parameters()[0] == 9);
  // Nor has it one if it asks again.
  world.hear(chunks[2]);
  world.hear(chunks[0]);
  world.hear(ServerWorld::message(0, proto::Pull{2}));
  CHECK(answers(world) == 0);
  disk->slow = false;
  CHECK(answers(world) == 6);
  world.commit(0, 3, kOnes);
  CHECK(answers(world) == 3);
}

TEST_CASE("journal: a commit that is held until its round is full is answered from the disk, too") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  ServerWorld world(journaled(disk, 0, "bsp"));
  world.members(1, {0});
  world.from_scheduler(proto::Save{1});
  tests::sent(world.core);
  disk->slow = true;
  world.commit(0, 2, kOnes);
  CHECK(answers(world) == 0);
  disk->slow = false;
  CHECK(answers(world) == 3);
}

TEST_CASE("journal: without a snapshot on disk pulls are answered, and no commit is") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  disk->slow_snapshots = true;
  ServerWorld world(journaled(disk));
  world.members(1, {0});
  world.hear(ServerWorld::message(0, proto::Pull{1}));
  CHECK(answers(world) == 3);
  world.from_scheduler(proto::Save{1});
  world.commit(0, 2, kOnes);
  CHECK(answers(world) == 2);
  disk->slow_snapshots = false;
  CHECK(answers(world) == 1);
}

TEST_CASE("journal: a disk that is full ends the server with the line") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  ServerWorld world(journaled(disk));
  world.members(1, {0});
  world.from_scheduler(proto::Save{1});
  tests::sent(world.core);
  disk->full = true;
  world.commit(0, 2, kOnes);
  CHECK(answers(world) == 2);
  REQUIRE(world.core.failure());
  CHECK(world.core.failure()->message == "cannot write the journal: No space left");
}

TEST_CASE("journal: the hello tells the commits of the snapshot and the journal together") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  {
    ServerWorld world(journaled(disk));
    world.members(1, {0});
    world.commit(0, 2, kOnes);
    world.from_scheduler(proto::Save{1});
    world.commit(0, 3, kOnes);
    world.commit(0, 4, Values(5, std::numeric_limits<float>::quiet_NaN()));  // seen to its end
    world.commit(0, 5, kOnes);
    tests::sent(world.core);
  }
  ServerCore hello(ServerWorld::options(journaled(disk)), ServerWorld::initial({}),
                   ServerWorld::gate({}), kSchedulerPeer, std::make_unique<SlowStorage>(disk));
  hello.on_start(Instant{1});
  const auto said = tests::bodies<proto::Hello>(tests::sent(hello), kSchedulerPeer);
  REQUIRE(said.size() == 1);
  CHECK(said[0].snapshots == std::vector<proto::SnapshotInfo>{{1, 1, 4}});
  ServerWorld next(journaled(disk, 1));
  CHECK(next.parameters()[0] == 7);
  CHECK(lines_of(next.core) ==
        "goes on from snapshot 1 of this run, which holds 1 commit, and its journal, which has 3 "
        "more\n");
}

TEST_CASE("journal: what shards went back from is not replayed") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  {
    ServerWorld world(journaled(disk));
    world.members(1, {0});
    world.from_scheduler(proto::Save{1});
    world.commit(0, 2, kOnes);
    tests::sent(world.core);
    // It dies here, and the others go back meanwhile.
    auto setup = journaled(disk, 1);
    setup.setbacks = 1;
    ServerWorld next(setup);
    CHECK(next.parameters()[0] == 10);
    // It goes back itself, and then on.
    proto::Members list{.epoch = 2, .members = {{{0}, life_of(0)}}};
    list.setbacks = 1;
    list.back_to = 1;
    world.from_scheduler(list);
    CHECK(world.parameters()[0] == 10);
    world.commit(0, 4, Values(5, 3), 1);
    tests::sent(world.core);
    CHECK(world.parameters()[0] == 7);
  }
  auto setup = journaled(disk, 1);
  setup.setbacks = 1;
  ServerWorld next(setup);
  CHECK(next.parameters()[0] == 7);
}

TEST_CASE("journal: an order of the scheduler is carried out once") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  const auto tell = [](ServerWorld& world, std::uint64_t epoch, std::uint32_t number) {
    proto::Members list{.epoch = epoch, .members = {}, .phase = {.number = number}};
    for (const std::uint32_t worker : {0u, 1u}) list.members.push_back({{worker}, life_of(worker)});
    world.from_scheduler(std::move(list));
  };
  auto setup = journaled(disk, 0, "tempo");
  setup.average = true;
  ServerWorld first(setup);
  tell(first, 1, 0);
  first.from_scheduler(proto::Save{1});
  first.commit(0, 2, kOnes);
  tell(first, 2, sync::kRestoreOrder);
  first.commit(0, 3, kOnes, 1);
  tests::sent(first.core);
  const Values left = first.parameters();
  setup.snapshot = 1;
  ServerWorld next(setup);
  CHECK(next.parameters() == left);
  tell(next, 2, sync::kRestoreOrder);
  CHECK(next.parameters() == left);
}

// Its next life could not go on from it. So a commit waits for the next snapshot.
TEST_CASE("journal: where the one before cannot be used to its end, a new one needs a snapshot") {
  const auto disk = std::make_shared<SlowStorage::Disk>();
  {
    ServerWorld world(journaled(disk));
    world.members(1, {0});
    world.from_scheduler(proto::Save{1});
    tests::sent(world.core);
  }
  disk->journal->clear();
  ServerWorld next(journaled(disk, 1));
  next.members(1, {0});
  next.commit(0, 2, kOnes);
  CHECK(answers(next) == 2);
  next.from_scheduler(proto::Save{2});
  CHECK(answers(next) == 1);
}

}  // namespace
}  // namespace rubato::server
