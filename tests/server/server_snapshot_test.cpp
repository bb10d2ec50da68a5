// A server that is started again goes on from a snapshot: same parameters, same counts, and orders
// that were carried out are not carried out twice.
#include <doctest/doctest.h>

#include "sync/keeping_gate.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

std::string warnings(ServerCore& core) {
  std::string all;
  while (const auto line = core.poll_warning()) all += *line + "\n";
  return all;
}

std::string lines(ServerCore& core) {
  std::string all;
  while (const auto line = core.poll_log()) all += *line + "\n";
  return all;
}

ServerSetup keeping(std::shared_ptr<KeptSnapshots> kept, std::uint64_t snapshot = 0,
                    const std::string& sync = "asp") {
  ServerSetup setup;
  setup.sync = sync;
  setup.kept = std::move(kept);
  setup.snapshot = snapshot;
  return setup;
}

TEST_CASE("snapshot: the next life has what was saved, and counts on") {
  const auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld first(keeping(kept));
  first.members(1, {0, 1});
  first.commit(0, 2, kOnes);
  first.commit(1, 2, kOnes);
  first.from_scheduler(proto::Save{1});
  tests::sent(first.core);
  first.commit(0, 3, kOnes);
  CHECK(first.core.commits() == 3);

  ServerCore hello(ServerWorld::options({}), ServerWorld::initial({}), ServerWorld::gate({}),
                   kSchedulerPeer, ServerWorld::storage(keeping(kept)));
  hello.on_start(Instant{1});
  const auto said = tests::bodies<proto::Hello>(tests::sent(hello), kSchedulerPeer);
  REQUIRE(said.size() == 1);
  CHECK(said[0].snapshots == std::vector<proto::SnapshotInfo>{{1, 1, 2}});

  ServerWorld next(keeping(kept, 1));
  CHECK(next.parameters() == Values{8, 18, 28, 38, 48});
  CHECK(next.core.commits() == 2);
  CHECK(next.core.version() == 2);
  CHECK(lines(next.core) == "goes on from snapshot 1 of this run, which holds 2 commits\n");
  // No commit of the first life's members counts, and those that join again begin anew.
  next.members(1, {});
  next.commit(0, 3, kOnes);
  CHECK(next.parameters() == Values{8, 18, 28, 38, 48});
  next.members(2, {0});
  next.commit(0, 4, kOnes);
  CHECK(next.parameters() == Values{7, 17, 27, 37, 47});
  CHECK(next.core.commits() == 3);
  next.from_scheduler(proto::Save{2});
  CHECK(kept->back().info == proto::SnapshotInfo{1, 2, 3});
}

TEST_CASE("snapshot: of another run it is not used, and a line says so") {
  const auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld first(keeping(kept));
  first.from_scheduler(proto::Save{1});
  kept->back().info.run = 99;
  ServerWorld next(keeping(kept));
  CHECK(next.parameters() == ServerSetup().initial);
  CHECK(lines(next.core) == "snapshot 1: is a snapshot of another run; it is not used\n");
  kept->back().cluster = 0;
  ServerWorld foreign(keeping(kept));
  CHECK(warnings(foreign.core) == "snapshot 1: is of another cluster; it is not used\n");
}

TEST_CASE("snapshot: of other settings, or one that is not there, ends the server with a line") {
  const auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld first(keeping(kept));
  first.from_scheduler(proto::Save{1});
  kept->back().settings = "sync = bsp\n";
  ServerWorld other(keeping(kept, 1));
  REQUIRE(other.core.failure());
  CHECK(other.core.failure()->message.find("another cluster file") != std::string::npos);
  ServerWorld missing(keeping(kept, 7));
  REQUIRE(missing.core.failure());
  CHECK(missing.core.failure()->message == "scheduler: wants snapshot 7, which is not here");
}

TEST_CASE("snapshot: an order to go back is carried out once, before or after the snapshot") {
  const auto kept = std::make_shared<KeptSnapshots>();
  const auto setup = [&](std::uint64_t snapshot) {
    auto all = keeping(kept, snapshot, "tempo");
    all.average = true;
    return all;
  };
  const auto tell = [](ServerWorld& world, std::uint64_t epoch, std::uint32_t number) {
    proto::Members list{.epoch = epoch, .members = {}, .phase = {.number = number}};
    for (const std::uint32_t worker : {0u, 1u}) list.members.push_back({{worker}, life_of(worker)});
    world.from_scheduler(std::move(list));
  };
  ServerWorld first(setup(0));
  tell(first, 1, 0);
  first.commit(0, 2, kOnes);
  tell(first, 2, sync::kRestoreOrder);
  first.commit(0, 3, kOnes, 1);
  first.from_scheduler(proto::Save{1});

  ServerWorld next(setup(1));
  const Values saved = next.parameters();
  CHECK(saved != ServerSetup().initial);
  tell(next, 2, sync::kRestoreOrder);
  CHECK(next.parameters() == saved);
  tell(next, 3, 2 * sync::kRestoreOrder);
  CHECK(next.parameters() == ServerSetup().initial);

  ServerWorld late(setup(1));
  tell(late, 3, 2 * sync::kRestoreOrder);  // it missed the order while it was gone
  CHECK(late.parameters() == ServerSetup().initial);
}

// A disk that fails, and one that is slow.
class BadStorage final : public Storage {
 public:
  explicit BadStorage(bool& slow) : slow_(slow) {}
  Inventory list() override { return {}; }
  Result<ShardSnapshot> load(const proto::SnapshotInfo&) override {
    return fail(ErrorCode::Io, "no");
  }
  void save(ShardSnapshot, std::uint64_t) override { saved_ = true; }
  std::optional<Result<void>> poll_saved() override {
    if (slow_ || !std::exchange(saved_, false)) return std::nullopt;
    return fail(ErrorCode::Io, "cannot write x: No space left on device");
  }

 private:
  bool& slow_;
  bool saved_ = false;
};

TEST_CASE("snapshot: a disk that fails is told of once, one that is slow leaves snapshots out") {
  bool slow = false;
  ServerCore core(ServerWorld::options({}), ServerWorld::initial({}), ServerWorld::gate({}),
                  kSchedulerPeer, std::make_unique<BadStorage>(slow));
  const auto say = [&](proto::Body body) {
    core.on_message(Instant{1}, kSchedulerPeer,
                    {.cluster = kCluster,
                     .sender = {proto::Role::Scheduler, 0},
                     .incarnation = 1,
                     .body = std::move(body),
                     .payload = {}});
    tests::sent(core);
  };
  core.on_start(Instant{1});
  say(proto::Welcome{
      .you = {proto::Role::Server, 0}, .parameters = 5, .range = {0, 5}, .shards = {}});
  say(proto::Save{1});
  CHECK(warnings(core) ==
        "cannot write x: No space left on device; the run goes on without this snapshot\n");
  say(proto::Save{2});
  CHECK(warnings(core).empty());
  slow = true;
  say(proto::Save{3});
  for (std::uint64_t number = 4; number < 9; ++number) say(proto::Save{number});
  CHECK(warnings(core) == "snapshot 4 is left out: snapshot 3 is still being written\n");
  CHECK_FALSE(core.failure());
}

TEST_CASE("snapshot: an order that comes late is left out, for other shards have moved on") {
  const auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld world(keeping(kept));
  const auto order = [&](std::uint64_t number, Duration ago) {
    const Instant clock = world.now;
    world.now = world.now + ago;
    return proto::Save{.number = number, .keep = 0, .clock = clock, .ago = ago};
  };
  const auto arrives = [&](const proto::Save& save, double late) {
    world.now = world.now + Duration::from_seconds(late);
    world.from_scheduler(save);
    const bool saved =
        !tests::bodies<proto::Heartbeat>(tests::sent(world.core), kSchedulerPeer).empty();
    const bool warned = !warnings(world.core).empty();
    CHECK(saved != warned);
    return saved;
  };
  const Duration second = Duration::from_seconds(1);
  CHECK(arrives(order(1, second), 0.3));
  CHECK(arrives(order(2, {}), 1.4));  // the Welcome came at once
  CHECK_FALSE(arrives(order(3, {}), 1.9));
  CHECK_FALSE(arrives(order(4, second), 30));
  CHECK(arrives(order(5, second), 0.3));
  // The machine slept: its clock stood still.
  proto::Save slept = order(6, {});
  slept.ago = second;
  CHECK_FALSE(arrives(slept, 0.5));
}

TEST_CASE("snapshot: a late order makes no later one seem in time, nor does a late answer") {
  const auto kept = std::make_shared<KeptSnapshots>();
  ServerWorld world(keeping(kept));
  const auto saved_after = [&](std::uint64_t number, double seconds) {
    const proto::Save save{.number = number, .keep = 0, .clock = world.now, .ago = {}};
    world.now = world.now + Duration::from_seconds(seconds);
    world.from_scheduler(save);
    warnings(world.core);
    return !tests::bodies<proto::Heartbeat>(tests::sent(world.core), kSchedulerPeer).empty();
  };
  CHECK_FALSE(saved_after(1, 7));
  CHECK_FALSE(saved_after(2, 4));
  // A cut has held it back: the Welcome came at once.
  world.from_scheduler(
      proto::Heartbeat{.echo = world.now - Duration::from_seconds(3), .clock = {}});
  CHECK_FALSE(saved_after(3, 4));
  CHECK(saved_after(4, 1));
}

// A server with a commit that no snapshot has. `kept`: null: it keeps none.
struct Unsaved : ServerWorld {
  explicit Unsaved(std::shared_ptr<KeptSnapshots> kept) : ServerWorld(keeping(std::move(kept))) {
    members(1, {0});
    commit(0, 2, kOnes);
  }
};

TEST_CASE("interrupt: a server asks for a snapshot of now, answers until then, and ends") {
  const auto kept = std::make_shared<KeptSnapshots>();
  Unsaved world(kept);
  world.from_scheduler(proto::Save{1});
  world.commit(0, 3, kOnes);
  tests::sent(world.core);
  world.core.on_interrupt(world.now);
  const auto asked = tests::bodies<proto::Heartbeat>(tests::sent(world.core), kSchedulerPeer);
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].wants_snapshot);
  CHECK_FALSE(world.core.stopped());
  world.commit(0, 4, kOnes);
  CHECK(replies(tests::sent(world.core)) == "worker 0: seq 4 version 3");
  world.from_scheduler(proto::Save{2});
  world.commit(0, 5, kOnes);  // the snapshot does not have it, so it is not answered
  CHECK(replies(tests::sent(world.core)).empty());
  CHECK(world.core.stopped() == "interrupted");
  REQUIRE(kept->size() == 2);
  CHECK(kept->back().info.commits == 3);
  CHECK(warnings(world.core).empty());
}

TEST_CASE("interrupt: a server that would lose nothing, or can keep nothing, ends at once") {
  Unsaved saved(std::make_shared<KeptSnapshots>());
  saved.from_scheduler(proto::Save{1});
  saved.core.on_interrupt(saved.now);
  CHECK(saved.core.stopped());
  Unsaved none(nullptr);
  none.core.on_interrupt(none.now);
  CHECK(none.core.stopped());
}

TEST_CASE("interrupt: a silent scheduler is not waited for, and a line says what is lost") {
  Unsaved world(std::make_shared<KeptSnapshots>());
  world.core.on_interrupt(world.now);
  const auto alarm = world.core.poll_wakeup();
  REQUIRE(alarm);
  for (int second = 1; second <= 5; ++second) {
    CHECK_FALSE(world.core.stopped());
    world.core.on_wakeup(world.now + Duration::from_seconds(second));
  }
  CHECK(world.core.stopped() == "interrupted");
  CHECK(warnings(world.core) ==
        "ends without a snapshot of now: the scheduler is silent; the newest one is without 1 "
        "commit\n");
}

TEST_CASE("interrupt: a scheduler that answers is waited for, and a line says for what") {
  Unsaved world(std::make_shared<KeptSnapshots>());
  world.core.on_interrupt(world.now);
  for (int second = 0; second < 60; ++second) {
    world.now = world.now + Duration::from_seconds(1);
    world.from_scheduler(proto::Heartbeat{});
    world.core.on_wakeup(world.now);
  }
  CHECK_FALSE(world.core.stopped());
  CHECK(warnings(world.core)
            .find("the newest snapshot is without 1 commit: waits for the "
                  "scheduler's order; interrupt it again to end without it\n") == 0);
  world.from_scheduler(proto::Save{1});
  tests::sent(world.core);
  CHECK(world.core.stopped() == "interrupted");
}

TEST_CASE("stop: of a run that could not go on is a failure of the server") {
  ServerWorld world;
  world.from_scheduler(proto::Stop{"no worker is left", true});
  CHECK(world.core.stopped() == "no worker is left");
  REQUIRE(world.core.failure());
  CHECK(world.core.failure()->code == ErrorCode::Gone);
}

}  // namespace
}  // namespace rubato::server
