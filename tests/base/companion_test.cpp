#include "base/companion.hpp"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

using namespace rubato;

namespace {

std::vector<int> cores_of(int thread) {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(thread, sizeof(set), &set) == 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

void move_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  REQUIRE(::sched_setaffinity(0, sizeof(set), &set) == 0);
}

// A thread that says who it is and stays until the end.
struct Other {
  explicit Other(Companion& companion) {
    thread = std::jthread([this, &companion] {
      companion.is_me();
      id = ::gettid();
      begun.count_down();
      over.wait();
    });
    begun.wait();
  }
  ~Other() { over.count_down(); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  std::atomic<int> id = 0;
  std::latch begun{1};
  std::latch over{1};
  std::jthread thread;  // last: it uses the others
};

}  // namespace

TEST_CASE("a companion is where its leader is, until it is let go") {
  const std::vector<int> all = cores_of(0);
  if (all.size() < 2) return;  // nowhere to go
  Companion companion(all.size());
  Other other(companion);
  CHECK(cores_of(other.id) == all);
  for (const int core : {all.front(), all.back(), all.front()}) {
    move_to({core});
    companion.follow();
    CHECK(cores_of(other.id) == std::vector{core});
  }
  companion.let_go();
  CHECK(cores_of(other.id) == all);
  companion.follow();
  CHECK(cores_of(other.id) == std::vector{all.front()});
  move_to(all);
  CHECK(cores_of(0) == all);
}

TEST_CASE("where cores are many, or there is nobody else, nobody follows") {
  const std::vector<int> all = cores_of(0);
  Companion rich(all.size() - 1);
  {
    Other other(rich);
    rich.follow();
    CHECK(cores_of(other.id) == all);
  }
  Companion alone(all.size());
  alone.follow();
  alone.is_me();
  alone.follow();
  alone.let_go();
  CHECK(cores_of(0) == all);
}

TEST_CASE("the last thread that says so is the companion") {
  const std::vector<int> all = cores_of(0);
  if (all.size() < 2) return;
  Companion companion(all.size());
  move_to({all.front()});
  Other first(companion);
  companion.follow();
  Other second(companion);
  companion.follow();
  CHECK(cores_of(second.id) == std::vector{all.front()});
  companion.let_go();
  CHECK(cores_of(second.id) == all);
  move_to(all);
}
