// The roster: lives and what may follow them, the line for the start, names and their past.
#include "scheduler/roster.hpp"

#include <doctest/doctest.h>

#include <array>

namespace rubato::scheduler::roster_tests {
namespace {

constexpr std::array kMemberLives{Life::Joined, Life::Training, Life::Rejoining};
constexpr std::array kPastLives{Life::Left,    Life::Done,     Life::Lost,
                                Life::Stalled, Life::Replaced, Life::Aside};

Roster::Worker joining(std::string name, Incarnation incarnation, std::uint64_t epoch) {
  return {.name = std::move(name), .incarnation = incarnation, .peer = 7, .epoch = epoch};
}

TEST_CASE("roster: a member may become anything, but for one that is to join again") {
  for (const Life before : kMemberLives) {
    CHECK(is_member(before));
    CHECK(may_follow(before, Life::Joined));
    CHECK(may_follow(before, Life::Rejoining));
    CHECK(may_follow(before, Life::Training) == (before != Life::Rejoining));
    for (const Life next : kPastLives) CHECK(may_follow(before, next));
  }
}

TEST_CASE("roster: nothing follows the end of a membership") {
  for (const Life before : kPastLives) {
    CHECK_FALSE(is_member(before));
    for (const Life next : kMemberLives) CHECK_FALSE(may_follow(before, next));
    for (const Life next : kPastLives) CHECK_FALSE(may_follow(before, next));
  }
}

TEST_CASE("roster: whoever is in line trains once all shards have its list") {
  Roster roster({});
  const WorkerId zero = roster.admit(joining("a", 10, 1));
  const WorkerId one = roster.admit(joining("b", 20, 2));
  CHECK_FALSE(roster.poll_ready(0));
  CHECK(roster.poll_ready(1) == zero);
  CHECK(roster[zero].life == Life::Training);
  CHECK_FALSE(roster.poll_ready(1));
  CHECK(roster[one].life == Life::Joined);
  CHECK(roster.poll_ready(2) == one);
}

TEST_CASE("roster: who is to join again, or has gone, is passed over in the line") {
  Roster roster({});
  const WorkerId gone = roster.admit(joining("a", 10, 1));
  const WorkerId again = roster.admit(joining("b", 20, 2));
  roster.rejoin_all();
  roster.remove(gone, Life::Lost, Instant{5}, 30);
  CHECK_FALSE(roster.poll_ready(9));
  CHECK(roster[again].life == Life::Rejoining);
  roster.admit_again(again, 21, 3);
  CHECK(roster[again].incarnation == 21);
  CHECK_FALSE(roster.poll_ready(2));
  CHECK(roster.poll_ready(3) == again);
  CHECK(roster.all().size() == 2);
}

TEST_CASE("roster: a later worker of a name has another number, and knows the steps before it") {
  Roster roster({});
  const WorkerId first = roster.admit(joining("a", 10, 1));
  CHECK(roster.members().at("a") == first);
  CHECK_FALSE(roster.is_past(10));
  roster.remove(first, Life::Left, Instant{5}, 30);
  CHECK(roster.members().empty());
  CHECK(roster.is_past(10));
  CHECK(roster[first].gone_at == Instant{5});
  const WorkerId second = roster.admit(joining("a", 11, 2));
  CHECK(second != first);
  CHECK(roster.members().at("a") == second);
  CHECK(roster.past_steps("a") == 30);
  CHECK(roster.past_steps("b") == 0);
  roster.remove(second, Life::Done, {}, 12);
  CHECK(roster.past_steps("a") == 42);
  CHECK_FALSE(roster[second].gone_at);
}

TEST_CASE("roster: the order of the options, then the order of joining") {
  Roster roster({"c", "a"});
  for (const char* name : {"a", "b", "c"}) roster.admit(joining(name, 1, 1));
  roster.remove(WorkerId{0}, Life::Left, Instant{}, 0);
  roster.admit(joining("a", 2, 2));
  const std::vector<WorkerId> all{WorkerId{0}, WorkerId{1}, WorkerId{2}, WorkerId{3}};
  CHECK(roster.ordered(all) ==
        std::vector<WorkerId>{WorkerId{2}, WorkerId{0}, WorkerId{1}, WorkerId{3}});
  CHECK(Roster({}).ordered({}).empty());
}

TEST_CASE("roster: after a return each worker is heard for the first time once") {
  Roster roster({});
  const WorkerId id = roster.admit(joining("a", 10, 1));
  CHECK_FALSE(roster.spoke(id, 8));
  CHECK(roster[id].peer == 8);
  roster.on_return();
  CHECK(roster[id].peer == kNobody);
  CHECK(roster.spoke(id, 9));
  CHECK_FALSE(roster.spoke(id, 9));
}

TEST_CASE("roster: a name that joined a hundred times joins once in ten seconds") {
  Roster roster({});
  Instant now{1'000'000'000};
  for (std::uint32_t life = 0; life < kQuickLivesMax; ++life) {
    CHECK_FALSE(roster.joins_too_often(now, "a"));
    const WorkerId id =
        roster.admit({.name = "a", .incarnation = life, .epoch = 1, .joined_at = now});
    roster.remove(id, Life::Lost, now, 0);
  }
  CHECK(roster.names() == 1);
  CHECK(roster.lives("a") == kQuickLivesMax);
  CHECK(roster.joins_too_often(now, "a"));
  CHECK_FALSE(roster.joins_too_often(now, "b"));
  CHECK_FALSE(roster.joins_too_often(now + kLifePace, "a"));
}

}  // namespace
}  // namespace rubato::scheduler::roster_tests
