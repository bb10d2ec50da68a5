#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "base/rng.hpp"
#include "scheduler/good_copies.hpp"
#include "tests/scheduler/scheduler_world.hpp"

namespace rubato::scheduler {
namespace {

constexpr Incarnation kCopied = 7;

struct Copies {
  GoodCopies copies{kCopied, kSecond * 10, kSecond * 600};
  Instant now{1'000'000'000};

  explicit Copies(std::uint32_t servers) {
    for (std::uint32_t i = 0; i < servers; ++i) copies.add_server({});
    copies.on_start(now);
  }
  void tell(std::uint32_t server, std::uint64_t saved, std::uint64_t saving = 0,
            std::uint64_t commits = 0) {
    proto::Heartbeat beat;
    beat.saved = saved;
    beat.saving = saving;
    beat.commits = commits;
    copies.on_told(now, server, beat, 100);
  }
  // The number that is ordered within this time; 0: none.
  std::uint64_t order_within(Duration time) {
    for (const Instant end = now + time; now < end; now = now + kSecond)
      if (const auto order = copies.poll_order(now, 0)) return order->number;
    return 0;
  }
};

TEST_CASE("good copies: the next order waits for a server that writes, and not for ever") {
  Copies world(2);
  CHECK(world.order_within(kSecond) == 1);
  world.tell(0, 1);
  world.tell(1, 0, 1);
  CHECK(world.order_within(kSecond * 100) == 0);
  world.tell(1, 1);
  CHECK(world.order_within(kSecond * 2) == 2);
  world.tell(0, 2);
  world.tell(1, 1, 2);
  CHECK(world.order_within(kSecond * 590) == 0);
  CHECK(world.order_within(kSecond * 20) == 3);
}

TEST_CASE("good copies: an order may be hurried, but not before all have told of the last one") {
  Copies world(2);
  CHECK(world.order_within(kSecond) == 1);
  world.tell(0, 1);
  world.tell(1, 0, 1);
  world.copies.hurry(world.now);
  CHECK(world.order_within(kSecond * 2) == 0);
  world.tell(1, 1);
  CHECK(world.order_within(kSecond * 2) == 0);
  world.copies.hurry(world.now);
  CHECK(world.order_within(kSecond) == 2);
}

// The orders that the scheduler's journal has lost were told to processes that are gone.
TEST_CASE("good copies: a new process keeps what it has beside orders that it was not told of") {
  Copies world(2);
  CHECK(world.order_within(kSecond) == 1);
  const auto info = [](std::uint64_t number) {
    return proto::SnapshotInfo{.run = kCopied, .number = number, .commits = number};
  };
  const std::array full{info(1)};
  const std::array both{info(1), info(2)};
  world.copies.on_replaced(0, full, &full[0], 0);
  world.copies.on_replaced(1, both, &both[0], 0);  // number 2 was ordered, and is lost
  const auto third = world.copies.last_order(world.now, 0);
  REQUIRE(third);
  CHECK(third->number == 3);
  CHECK(third->keep == 1);
  world.tell(1, 3);  // and server 0 cannot write
  const auto fourth = world.copies.last_order(world.now, 0);
  REQUIRE(fourth);
  CHECK(fourth->keep == 1);
}

TEST_CASE("good copies: who did not hear an order, or is not here, is not waited for") {
  Copies world(2);
  CHECK(world.order_within(kSecond) == 1);
  for (const std::uint32_t server : {0u, 1u}) world.tell(server, 1);
  CHECK(world.order_within(kSecond * 11) == 2);
  world.tell(0, 2);
  CHECK(world.order_within(kSecond * 11) == 3);
  world.copies.on_absent(1);
  world.tell(0, 3);
  CHECK(world.order_within(kSecond * 11) == 4);
}

TEST_CASE("good copies: after a return each server is heard before the next order") {
  Copies world(2);
  CHECK(world.order_within(kSecond) == 1);
  for (const std::uint32_t server : {0u, 1u}) world.tell(server, 1);
  world.copies.on_return();
  CHECK(world.order_within(kSecond * 100) == 0);  // nobody is here
  world.copies.on_heard(0);
  CHECK(world.order_within(kSecond * 100) == 0);
  world.copies.on_absent(1);
  CHECK(world.order_within(kSecond * 100) == 0);  // nobody knows what the other one has
  world.copies.on_heard(1);
  CHECK(world.order_within(kSecond * 2) == 2);
}

// What it has written may be all that is on both disks.
TEST_CASE(
    "good copies: before the first one that all have, a server without a word is waited for") {
  Copies world(2);
  CHECK(world.order_within(kSecond) == 1);
  world.tell(0, 1);
  CHECK(world.order_within(kSecond * 100) == 0);
  world.copies.on_absent(1);
  CHECK(world.order_within(kSecond * 100) == 0);
  world.tell(1, 0);  // it has not heard the order
  CHECK(world.order_within(kSecond * 2) == 2);
  world.tell(0, 2);
  world.tell(1, 0, 2);
  world.copies.on_absent(1);
  CHECK(world.order_within(kSecond * 900) == 0);
  world.copies.on_replaced(1, {}, nullptr, 0);
  CHECK(world.order_within(kSecond * 2) == 3);
}

TEST_CASE("good copies: numbers that somebody has are not given again") {
  GoodCopies copies(kCopied, kSecond, kSecond * 600);
  const proto::SnapshotInfo found[] = {{kCopied, 4, 9}, {kCopied + 1, 800, 9}};
  copies.add_server(found);
  copies.on_start({});
  CHECK(copies.poll_order({}, 0)->number == 5);
}

TEST_CASE("good copies: what is lost is what the shard had, whatever was lost before") {
  Copies world(1);
  CHECK(world.order_within(kSecond) == 1);
  world.tell(0, 1, 0, 90);  // the workers report 100 commits: 10 were lost before
  const proto::SnapshotInfo from{kCopied, 1, 80};
  CHECK(world.copies.on_replaced(0, {&from, 1}, &from, 105) == 15);
  CHECK(world.copies.on_replaced(0, {&from, 1}, &from, 107) == 2);
  CHECK(world.copies.on_replaced(0, {}, nullptr, 107) == 80);
}

TEST_CASE("good copies: commits that a server tells of before their workers do are not lost") {
  Copies world(1);
  const auto tell = [&](std::uint64_t shard, std::uint64_t reported) {
    proto::Heartbeat beat;
    beat.commits = shard;
    world.copies.on_told(world.now, 0, beat, reported);
  };
  for (std::uint64_t commits = 100; commits < 600; commits += 100) tell(commits, commits);
  tell(606, 600);  // six reports are on their way
  const proto::SnapshotInfo all{kCopied, 1, 606};
  CHECK(world.copies.on_replaced(0, {&all, 1}, &all, 606) == 0);
  tell(700, 690);
  const proto::SnapshotInfo less{kCopied, 1, 650};
  CHECK(world.copies.on_replaced(0, {&less, 1}, &less, 700) == 50);
}

TEST_CASE("good copies: all go back to what all have, and what came later is void") {
  Copies world(2);
  for (std::uint64_t number = 1; number <= 2; ++number) {
    CHECK(world.order_within(kSecond * 11) == number);
    for (const std::uint32_t server : {0, 1}) world.tell(server, number);
  }
  CHECK(world.order_within(kSecond * 11) == 3);
  world.tell(0, 3);
  CHECK(world.copies.go_back() == 2);
  const proto::SnapshotInfo found[] = {{kCopied, 2, 5}, {kCopied, 3, 9}};
  CHECK(world.copies.newest(found)->number == 2);
  CHECK(world.copies.saved(0) == 2);
  CHECK(world.order_within(kSecond * 16) == 4);
}

// Servers with two slots each, whose writes end late, fail, or never begin.
TEST_CASE("good copies: a number that was on all disks stays on all until another one is") {
  int runs = 0;  // that came to a common one
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    struct Disk {
      std::uint64_t slots[2] = {0, 0};
      std::uint64_t writing = 0, keep = 0;
      int left = 0;
      bool has(std::uint64_t number) const { return slots[0] == number || slots[1] == number; }
    };
    const auto count = static_cast<std::uint32_t>(2 + rng.below(3));
    Copies world(count);
    std::vector<Disk> disks(count);
    bool had = false;
    for (int second = 0; second < 400; ++second) {
      world.now = world.now + kSecond;
      for (Disk& disk : disks) {
        if (disk.writing == 0 || --disk.left > 0) continue;
        if (rng.below(4) > 0) {
          const bool first = disk.slots[0] != disk.keep &&
                             (disk.slots[0] < disk.slots[1] || disk.slots[1] == disk.keep);
          disk.slots[first || disk.slots[0] == 0 ? 0 : 1] = disk.writing;
        }
        disk.writing = 0;
      }
      if (const auto order = world.copies.poll_order(world.now, 0))
        for (Disk& disk : disks) {
          if (disk.writing != 0 || rng.below(6) == 0) continue;
          disk.writing = order->number;
          disk.keep = order->keep;
          disk.left = static_cast<int>(1 + rng.below(rng.below(5) == 0 ? 40 : 4));
        }
      if (second % 2 == 0)
        for (std::uint32_t i = 0; i < count; ++i)
          world.tell(i, std::max(disks[i].slots[0], disks[i].slots[1]), disks[i].writing);
      bool common = false;
      for (const std::uint64_t number : disks[0].slots)
        common = common || (number != 0 && std::ranges::all_of(disks, [&](const Disk& disk) {
                              return disk.has(number);
                            }));
      had = had || common;
      INFO("seed ", seed, ", second ", second);
      REQUIRE(common == had);
    }
    runs += had ? 1 : 0;
  }
  CHECK(runs > 250);
}

}  // namespace
}  // namespace rubato::scheduler
