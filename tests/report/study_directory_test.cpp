#include "report/study/study_directory.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

using namespace rubato::report;

TEST_CASE("parts: each run is in one part, and parts differ by one run at most") {
  CHECK(rc::check([] {
    const auto runs = static_cast<std::size_t>(*rc::gen::inRange(0, 200));
    const auto count = static_cast<std::size_t>(*rc::gen::inRange(1, 20));
    std::vector<int> owners(runs, 0);
    std::vector<std::ptrdiff_t> sizes;
    for (std::size_t index = 0; index < count; ++index) {
      const auto ours = runs_of({index, count}, runs);
      sizes.push_back(std::ranges::count(ours, true));
      for (std::size_t run = 0; run < runs; ++run) owners[run] += ours[run] ? 1 : 0;
    }
    RC_ASSERT(std::ranges::count(owners, 1) == static_cast<std::ptrdiff_t>(runs));
    RC_ASSERT(std::ranges::max(sizes) - std::ranges::min(sizes) <= 1);
  }));
}

TEST_CASE("parts: the runs of one variant are spread over the parts") {
  // Seed by seed 8 variants: without mixing, each of 8 parts would have one variant alone.
  const auto ours = runs_of({0, 8}, 64);
  std::vector<bool> variants(8, false);
  for (std::size_t run = 0; run < ours.size(); ++run)
    if (ours[run]) variants[run % 8] = true;
  CHECK(std::ranges::count(variants, true) >= 3);
  // Pinned: all machines must agree, of whatever version.
  CHECK(runs_of({0, 4}, 8) == runs_of({0, 4}, 8));
}

TEST_CASE("parts: 3/16 is the third of sixteen") {
  const auto part = parse_part("3/16");
  REQUIRE(part.has_value());
  CHECK(part->index == 2);
  CHECK(part->count == 16);
  CHECK(part_name(*part) == "part-3-of-16");
  for (const char* bad : {"", "3", "0/2", "3/2", "/", "1/99999", "-1/2", "1/2/3", "1.5/2"})
    CHECK_FALSE(parse_part(bad).has_value());
}
