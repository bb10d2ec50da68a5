#include "scheduler/likely_path.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace rubato::scheduler::likely_path_tests {
namespace {

using What = PathPart::What;

double share_of(const std::vector<PathPart>& path, const std::string& node, What what) {
  for (const PathPart& part : path)
    if (part.node == node && part.what == what) return part.share;
  return 0;
}

TEST_CASE("likely path: where nobody waits, each worker has its own, by its steps") {
  const auto path = likely_path({{"fast", 300, 90, 0, 10}, {"slow", 100, 50, 0, 50}});
  CHECK(share_of(path, "fast", What::Compute) == doctest::Approx(0.75 * 0.9));
  CHECK(share_of(path, "fast", What::Communicate) == doctest::Approx(0.75 * 0.1));
  CHECK(share_of(path, "slow", What::Compute) == doctest::Approx(0.25 * 0.5));
  CHECK(share_of(path, "slow", What::Communicate) == doctest::Approx(0.25 * 0.5));
  CHECK(std::ranges::is_sorted(path, std::ranges::greater(), &PathPart::share));
}

TEST_CASE("likely path: those that wait, wait for those that do not") {
  const auto path =
      likely_path({{"pi-0", 100, 30, 60, 10}, {"pi-1", 100, 30, 60, 10}, {"slow", 100, 88, 0, 12}});
  REQUIRE(path.size() == 2);
  CHECK(path[0] == PathPart{"slow", What::Compute, 0.88});
  CHECK(path[1].share == doctest::Approx(0.12));
  CHECK(path[1].what == What::Communicate);
}

TEST_CASE("likely path: equal workers wait for each other in turn, so none is named") {
  const auto path =
      likely_path({{"a", 100, 80, 9, 11}, {"b", 100, 80, 11, 9}, {"fast", 100, 10, 80, 10}});
  REQUIRE(path.size() == 2);
  CHECK(share_of(path, "", What::Compute) == doctest::Approx((80.0 / 91 + 80.0 / 89) / 2));
  CHECK(share_of(path, "", What::Communicate) == doctest::Approx((11.0 / 91 + 9.0 / 89) / 2));
  CHECK(path_text(path) == "computing 88.9 %, communicating 11.1 %");
}

TEST_CASE("likely path: nobody waits for a worker whose commits are dropped") {
  const auto path =
      likely_path({{"a", 200, 50, 45, 5}, {"b", 200, 90, 0, 10}, {"late", 100, 95, 0, 5, 100, 51}});
  CHECK(share_of(path, "a", What::Compute) == 0);
  CHECK(share_of(path, "b", What::Compute) == doctest::Approx(0.8 * 0.9));
  CHECK(share_of(path, "late", What::Compute) == doctest::Approx(0.2 * 0.95));
}

TEST_CASE("likely path: of workers that have told nothing, nothing") {
  CHECK(likely_path({}).empty());
  CHECK(likely_path({{"a", 0, 0, 0, 0}}).empty());
  CHECK(likely_path({{"a", 0, 0, 0, 0}, {"b", 1, 2, 0, 0}}) ==
        std::vector<PathPart>{{"b", What::Compute, 1}});
}

}  // namespace
}  // namespace rubato::scheduler::likely_path_tests
