// Who handles which part of a pass may differ; each element is handled once.
#include "base/halves.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace rubato {
namespace {

TEST_CASE("halves: each element is handled once, and all results count") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kHalvedMin - 1,
                                  kHalvedMin, kHalvedMin + 1, 3 * kHalvedMin + 7}) {
    CAPTURE(count);
    std::vector<char> handled(count);
    const auto found = in_halves(count, [&](std::size_t begin, std::size_t n) {
      for (std::size_t i = begin; i < begin + n; ++i) ++handled[i];
      return (begin == 0 ? 1U : 0U) | (begin + n == count ? 2U : 0U);
    });
    CHECK(std::ranges::all_of(handled, [](char times) { return times == 1; }));
    CHECK(found == 3);
  }
}

}  // namespace
}  // namespace rubato
