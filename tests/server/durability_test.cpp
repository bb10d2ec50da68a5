// When answers leave: against a journal whose disk the test moves on by hand.
#include "server/durability.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace rubato::server::durable {
namespace {

class HandDisk final : public Storage {
 public:
  Inventory list() override { return {}; }
  Result<ShardSnapshot> load(const proto::SnapshotInfo&) override {
    return fail(ErrorCode::Io, "none");
  }
  void save(ShardSnapshot, std::uint64_t) override {}
  std::optional<Result<void>> poll_saved() override { return std::nullopt; }
  bool journals() const override { return true; }
  void begin_part(const Part& part) override { parts.push_back(part); }
  std::uint64_t append(LogBuffer, std::uint64_t commits) override {
    appended.push_back(commits);
    return appended.size();
  }
  void sync() override { ++syncs; }
  Result<std::uint64_t> synced() override { return on_disk; }

  std::vector<Part> parts;
  std::vector<std::uint64_t> appended;  // commits of each
  int syncs = 0;
  Result<std::uint64_t> on_disk = std::uint64_t{0};
};

struct World {
  HandDisk disk;
  Durability durability{&disk};
  Shard shard{{.chunk_bytes = 64, .optimizer = {}, .average = false, .blank = nullptr},
              std::vector<float>(4)};
  std::uint64_t commits = 0;
  proto::Outbox<proto::ToPeer> out;

  Durability::State now() { return {shard, commits, 7, 0}; }
  void commit() {
    const std::vector<float> update(4, 1.0f);
    shard.apply(0, update, shard.begin_update(1, 1));
    shard.count_update();
    ++commits;
    durability.write(now());
  }
  void answer(proto::PeerId to) { durability.hold({to, {}}, commits); }
  std::vector<proto::PeerId> released() {
    REQUIRE(durability.release(out));
    std::vector<proto::PeerId> all;
    while (const auto answer = out.poll()) all.push_back(answer->to);
    return all;
  }
};

using Peers = std::vector<proto::PeerId>;

TEST_CASE("durability: without a journal nothing waits and all is kept") {
  Durability durability;
  Shard shard;
  durability.write({shard, 3, 7, 0});
  CHECK_FALSE(durability.journals());
  CHECK_FALSE(durability.holds_answers());
  CHECK_FALSE(durability.wants_snapshot(false));
  CHECK(durability.kept(3) == 3);
}

// No snapshot can follow such a journal. A server that goes on would keep none for ever.
TEST_CASE("durability: a journal that fails is told, also where nobody waits for an answer") {
  World world;
  world.durability.begin_part(world.now(), 1, false);
  CHECK(world.released().empty());
  world.disk.on_disk = fail(ErrorCode::Io, "cannot write the journal: No space left on device");
  const auto released = world.durability.release(world.out);
  REQUIRE_FALSE(released);
  CHECK(released.error().message == "cannot write the journal: No space left on device");
}

TEST_CASE("durability: answers leave in order, each once what it answers is on disk") {
  World world;
  world.durability.begin_part(world.now(), 1, false);  // goes on from a snapshot
  world.commit();
  REQUIRE(world.durability.holds_answers());
  world.answer(1);
  world.answer(2);  // of the same moment
  world.commit();
  world.answer(3);
  CHECK(world.disk.syncs == 2);
  CHECK(world.disk.appended == std::vector<std::uint64_t>{1, 1});
  CHECK(world.released().empty());
  CHECK(world.durability.kept(world.commits) == 0);
  world.disk.on_disk = 1;
  CHECK(world.released() == Peers{1, 2});
  CHECK(world.durability.kept(world.commits) == 1);
  world.disk.on_disk = 2;
  CHECK(world.released() == Peers{3});
  CHECK(world.durability.kept(world.commits) == 2);
  world.durability.write(world.now());  // nothing new
  CHECK(world.disk.appended.size() == 2);
}

TEST_CASE("durability: a chain that is broken holds all answers until a snapshot is on disk") {
  World world;
  world.durability.break_off(world.now());
  CHECK_FALSE(world.disk.parts.back().continues);
  CHECK(world.durability.wants_snapshot(false));
  CHECK_FALSE(world.durability.holds_answers());  // nothing was done since
  world.commit();
  CHECK(world.durability.holds_answers());
  world.answer(1);
  world.disk.on_disk = 1;
  CHECK(world.released().empty());
  world.durability.on_save();
  CHECK_FALSE(world.durability.wants_snapshot(true));
  world.durability.on_saved();
  CHECK(world.released() == Peers{1});
  CHECK_FALSE(world.durability.wants_snapshot(false));
}

TEST_CASE("durability: a snapshot from before the last break mends nothing") {
  World world;
  world.durability.break_off(world.now());
  world.durability.on_save();
  world.durability.break_off(world.now());
  CHECK(world.durability.wants_snapshot(true));
  world.durability.on_saved();
  CHECK(world.durability.wants_snapshot(false));
}

TEST_CASE("durability: a disk that fails is told, and the answers stay") {
  World world;
  world.durability.begin_part(world.now(), 1, false);
  world.commit();
  world.answer(1);
  world.disk.on_disk = fail(ErrorCode::Io, "the disk is full");
  const auto released = world.durability.release(world.out);
  REQUIRE_FALSE(released);
  CHECK(released.error().message == "the disk is full");
  CHECK_FALSE(world.out.poll());
}

}  // namespace
}  // namespace rubato::server::durable
