// Seeding: who is named, when it is told, and when all shards have its values.
#include "scheduler/seeding.hpp"

#include <doctest/doctest.h>

namespace rubato::scheduler::seeding_tests {
namespace {

constexpr WorkerId kZero{0}, kOne{1};

TEST_CASE("seeding: shards with values of their own need nobody") {
  Seeding seeding(false);
  seeding.add_server();
  CHECK(seeding.done());
  CHECK_FALSE(seeding.seeder());
}

TEST_CASE("seeding: the seeder is told once, when all shards have the list that names it") {
  Seeding seeding(true);
  seeding.add_server();
  seeding.add_server();
  CHECK_FALSE(seeding.done());
  seeding.name(kOne);
  seeding.on_listed(7);
  CHECK(seeding.seeder() == kOne);
  CHECK(seeding.number() == 1);
  CHECK_FALSE(seeding.waits_for(kOne));
  CHECK_FALSE(seeding.poll_tell(6));
  CHECK(seeding.poll_tell(7));
  CHECK_FALSE(seeding.poll_tell(8));
  CHECK(seeding.waits_for(kOne));
  CHECK_FALSE(seeding.waits_for(kZero));
  CHECK(seeding.on_told(0, 1));
  CHECK_FALSE(seeding.on_told(0, 1));
  CHECK_FALSE(seeding.done());
  CHECK(seeding.on_told(1, 1));
  CHECK(seeding.done());
  CHECK_FALSE(seeding.waits_for(kOne));
}

TEST_CASE("seeding: another one is named when the seeder goes, and old values do not count") {
  Seeding seeding(true);
  seeding.add_server();
  seeding.add_server();
  seeding.name(kZero);
  seeding.on_listed(3);
  CHECK(seeding.poll_tell(3));
  seeding.on_told(0, 1);
  seeding.on_gone(kOne);
  CHECK(seeding.seeder() == kZero);
  seeding.on_gone(kZero);
  CHECK_FALSE(seeding.seeder());
  CHECK_FALSE(seeding.poll_tell(9));
  seeding.name(kOne);
  seeding.on_listed(5);
  CHECK(seeding.number() == 2);
  CHECK_FALSE(seeding.poll_tell(4));
  CHECK(seeding.poll_tell(5));
  seeding.on_told(1, 2);
  CHECK_FALSE(seeding.done());
  seeding.on_told(0, 2);
  CHECK(seeding.done());
}

TEST_CASE("seeding: a new process of a server has the values if its snapshot has them") {
  Seeding seeding(true);
  seeding.add_server();
  seeding.name(kZero);
  seeding.on_told(0, 1);
  seeding.on_replaced(0, true);
  CHECK(seeding.done());
  seeding.on_replaced(0, false);
  CHECK_FALSE(seeding.done());
}

TEST_CASE("seeding: values of a naming that the journal has lost count, and later ones are newer") {
  Seeding seeding(true);
  seeding.add_server();
  seeding.add_server();
  seeding.on_replaced(1, true);  // before anybody has told of the naming
  seeding.name(kZero);
  seeding.on_replaced(1, true);
  CHECK(seeding.on_told(0, 3));
  CHECK(seeding.done());
  CHECK(seeding.number() == 3);
  CHECK_FALSE(seeding.seeder());  // it was named under a number that the servers have passed
  seeding.on_replaced(0, false);
  CHECK_FALSE(seeding.done());
  seeding.name(kOne);
  CHECK(seeding.number() == 4);
  CHECK(seeding.on_told(0, 4));
  CHECK_FALSE(seeding.done());  // the values of the snapshot are those of naming 3
  CHECK(seeding.on_told(1, 4));
  CHECK(seeding.done());
}

}  // namespace
}  // namespace rubato::scheduler::seeding_tests
