#include "base/cores.hpp"

#include <doctest/doctest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/temp_directory.hpp"

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

TEST_CASE("a quota of control groups, of both versions: the least of a group and those around it") {
  const TempDirectory place;
  const auto write = [&](const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(place.path(path));
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  const auto quota = [&](const std::string& groups) {
    write("groups", groups);
    return core_quota(place.path("groups"), place.path("root"));
  };
  CHECK_FALSE(quota("0::/a/b\n").has_value());
  write("root/a/b/cpu.max", "max 100000\n");
  CHECK_FALSE(quota("0::/a/b\n").has_value());
  write("root/a/b/cpu.max", "150000 100000\n");
  CHECK(quota("0::/a/b\n") == 1.5);
  write("root/a/cpu.max", "50000 100000\n");
  CHECK(quota("0::/a/b\n") == 0.5);
  CHECK_FALSE(quota("0::/other\n").has_value());
  // Version 1: the controller has a directory of its own, and -1 is no quota.
  write("root/cpu,cpuacct/docker/cpu.cfs_quota_us", "20000\n");
  write("root/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  CHECK(quota("4:memory:/docker\n3:cpu,cpuacct:/docker\n0::/\n") == 0.2);
  CHECK_FALSE(quota("4:memory:/docker\n2:cpuset:/docker\n").has_value());
  write("root/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  CHECK_FALSE(quota("3:cpu,cpuacct:/docker\n").has_value());
  CHECK_FALSE(core_quota(place.path("none"), place.path("root")).has_value());
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
