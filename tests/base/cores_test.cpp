#include "base/cores.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <string>
#include <thread>
#include <vector>

using namespace rubato;

namespace {

// Of the calling thread.
std::vector<int> cores_now() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof(set), &set) == 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

// Where thread number `thread` of the list runs, and one that it starts. The caller stays as it is.
std::vector<int> placed(const std::string& list, std::size_t thread) {
  const auto cores = Cores::parse(list);
  REQUIRE(cores.has_value());
  std::vector<int> own, childs;
  std::thread([&] {
    cores->place(thread);
    own = cores_now();
    std::thread([&] { childs = cores_now(); }).join();
  }).join();
  CHECK(own == childs);
  return own;
}

}  // namespace

TEST_CASE("threads take the cores of the list in turns and so do those that they start") {
  const std::vector<int> all = cores_now();
  const int first = all.front(), last = all.back();
  const auto list = std::to_string(first) + "," + std::to_string(last) + "," + std::to_string(last);
  CHECK(placed(list, 0) == std::vector{first});
  CHECK(placed(list, 1) == std::vector{last});
  CHECK(placed(list, 2) == std::vector{last});
  CHECK(placed(list, 3) == std::vector{first});
  const auto range = std::to_string(first) + "-" + std::to_string(first);
  CHECK(placed(range, 5) == std::vector{first});
  CHECK(cores_now() == all);
  Cores().place(0);
  CHECK(cores_now() == all);
}

TEST_CASE("a list that cannot be read and a core that is not there are told") {
  for (const char* text : {"", "x", "0,", ",0", "0-", "-1", "1-0", "0;1", "0 1", "0x1", "1.5"}) {
    CAPTURE(text);
    const auto cores = Cores::parse(text);
    REQUIRE_FALSE(cores.has_value());
    CHECK(cores.error().code == ErrorCode::BadInput);
    CHECK(cores.error().message.find("is not a list of cores") != std::string::npos);
  }
  const auto none = Cores::parse("99999");
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == ErrorCode::BadInput);
  CHECK(none.error().message.find("no core 99999") != std::string::npos);
  CHECK(none.error().message.find(std::to_string(cores_now().front())) != std::string::npos);
}
