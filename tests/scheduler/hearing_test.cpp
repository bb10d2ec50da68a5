// Hearing: lost workers, absent servers, and a node that is cut off itself.
#include "scheduler/hearing.hpp"

#include <doctest/doctest.h>

namespace rubato::scheduler::hearing_tests {
namespace {

constexpr Duration kLost = Duration::from_seconds(10);
constexpr Duration kAbsent = Duration::from_seconds(100);
constexpr WorkerId kZero{0}, kOne{1};

Instant at(double seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

// Both servers and both workers are heard each second until `until`, but for those left out.
struct World {
  Hearing hearing{kLost, kAbsent};
  Instant now = at(100);

  World() {
    for (std::uint32_t i = 0; i < 2; ++i) hearing.on_server(now, i);
    for (const WorkerId worker : {kZero, kOne}) hearing.on_worker(now, worker);
  }
  void pass(double seconds, const std::vector<std::uint32_t>& servers,
            const std::vector<WorkerId>& workers) {
    for (const Instant end = now + Duration::from_seconds(seconds); now < end;) {
      now = now + Duration::from_seconds(1);
      for (const auto server : servers) hearing.on_server(now, server);
      for (const auto worker : workers) hearing.on_worker(now, worker);
      if (hearing.cut_off(now)) continue;
      for (const WorkerId worker : hearing.lost_workers(now)) {
        lost.push_back(worker);
        hearing.forget_worker(worker);
      }
      for (const auto server : hearing.newly_absent(now)) absent.push_back(server);
      for (const auto server : hearing.lost_servers(now)) gone = server;
    }
  }
  std::vector<WorkerId> lost;
  std::vector<std::uint32_t> absent;
  std::optional<std::uint32_t> gone;
};

TEST_CASE("hearing: a silent worker is lost, and the others are not") {
  World world;
  world.pass(9, {0, 1}, {kOne});
  CHECK(world.lost.empty());
  world.pass(2, {0, 1}, {kOne});
  CHECK(world.lost == std::vector<WorkerId>{kZero});
  world.pass(60, {0, 1}, {kOne});
  CHECK(world.lost.size() == 1);
}

TEST_CASE("hearing: a silent server is absent once, and lost after the longer time") {
  World world;
  world.pass(12, {0}, {kZero, kOne});
  CHECK(world.absent == std::vector<std::uint32_t>{1});
  CHECK(world.hearing.absent(1));
  CHECK_FALSE(world.hearing.absent(0));
  CHECK(world.hearing.any_absent());
  world.pass(80, {0}, {kZero, kOne});
  CHECK_FALSE(world.gone);
  world.pass(20, {0}, {kZero, kOne});
  CHECK(world.gone == 1);
}

TEST_CASE("hearing: an absent server that speaks says how long it was away") {
  World world;
  world.pass(30, {0}, {kZero, kOne});
  const auto heard = world.hearing.on_server(world.now, 1);
  REQUIRE(heard.away);
  CHECK(heard.away->seconds() == doctest::Approx(30).epsilon(0.1));
  CHECK_FALSE(world.hearing.any_absent());
  CHECK_FALSE(world.hearing.on_server(world.now, 1).away);
  CHECK(world.hearing.present_since(1) == world.now);
  CHECK(world.hearing.present_since(0) == at(100));
}

TEST_CASE("hearing: a node that hears nobody is cut off, and loses nobody") {
  World world;
  world.pass(90, {}, {});
  CHECK(world.hearing.is_cut_off());
  CHECK(world.lost.empty());
  CHECK(world.absent.empty());
  CHECK_FALSE(world.hearing.cut_off(world.now)->for_good);
  CHECK(world.hearing.on_worker(world.now, kZero));
  CHECK_FALSE(world.hearing.on_worker(world.now, kZero));
  CHECK_FALSE(world.hearing.cut_off(world.now));
}

TEST_CASE("hearing: one that is cut off says so once, and for good at the limit") {
  World world;
  world.now = at(106);
  const auto first = world.hearing.cut_off(world.now);
  REQUIRE(first);
  CHECK(first->news);
  CHECK_FALSE(first->for_good);
  world.pass(93, {}, {});
  const auto later = world.hearing.cut_off(world.now);
  REQUIRE(later);
  CHECK_FALSE(later->news);
  CHECK_FALSE(later->for_good);
  world.pass(2, {}, {});
  CHECK(world.hearing.cut_off(world.now)->for_good);
}

TEST_CASE("hearing: after a return no worker is lost before one was heard, or the limit") {
  World world;
  world.hearing.on_return(world.now, true);
  CHECK(world.hearing.awaits_workers());
  world.pass(50, {0, 1}, {});
  CHECK(world.lost.empty());
  world.pass(1, {0, 1}, {kOne});
  CHECK_FALSE(world.hearing.awaits_workers());
  world.pass(11, {0, 1}, {kOne});
  CHECK(world.lost == std::vector<WorkerId>{kZero});
}

TEST_CASE("hearing: what it waits for depends on the phase of the run") {
  Hearing hearing(kLost, kAbsent);
  CHECK_FALSE(hearing.poll_wakeup(RunPhase::Training));
  hearing.on_server(at(100), 0);
  CHECK(hearing.poll_wakeup(RunPhase::Training));
  CHECK(hearing.poll_wakeup(RunPhase::LastPull));
  CHECK_FALSE(hearing.poll_wakeup(RunPhase::LastCommits));
  CHECK_FALSE(hearing.poll_wakeup(RunPhase::Over));
  hearing.on_worker(at(100), kZero);
  CHECK(hearing.poll_wakeup(RunPhase::LastCommits));
}

}  // namespace
}  // namespace rubato::scheduler::hearing_tests
