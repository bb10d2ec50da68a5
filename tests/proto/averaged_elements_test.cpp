// Runs of averaged elements, against a flag for each element.
#include "proto/averaged_elements.hpp"

#include <doctest/doctest.h>

#include "base/rng.hpp"

namespace rubato::proto {
namespace {

std::vector<ElementRange> ranges_of(const std::vector<bool>& flags) {
  std::vector<ElementRange> ranges;
  for (std::uint64_t i = 0; i < flags.size(); ++i) {
    if (!flags[i]) continue;
    if (!ranges.empty() && ranges.back().end == i && i % 3 != 0)
      ranges.back().end = i + 1;
    else
      ranges.push_back({i, i + 1});  // neighbours may be ranges of their own
  }
  return ranges;
}

TEST_CASE("averaged elements: runs, counts and parts of a vector are those of the flags") {
  Rng rng(1);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<bool> flags(40);
    for (std::size_t i = 0; i < flags.size(); ++i) flags[i] = rng.uniform() < 0.4;
    const AveragedElements averaged(ranges_of(flags));
    for (std::uint64_t begin = 0; begin < flags.size(); begin += 7) {
      for (const std::uint64_t count : {0, 1, 5, 12}) {
        if (begin + count > flags.size()) continue;
        std::vector<int> seen(flags.size());
        std::uint64_t last = begin;
        averaged.for_each(begin, count, [&](std::uint64_t offset, std::uint64_t n) {
          CHECK(offset >= last);
          last = offset + n;
          for (std::uint64_t i = offset; i < offset + n; ++i) seen[i] += 1;
        });
        averaged.for_each_other(begin, count, [&](std::uint64_t offset, std::uint64_t n) {
          for (std::uint64_t i = offset; i < offset + n; ++i) seen[i] += 2;
        });
        std::uint64_t expected = 0;
        for (std::uint64_t i = 0; i < flags.size(); ++i) {
          const bool inside = begin <= i && i < begin + count;
          CHECK(seen[i] == (inside ? (flags[i] ? 1 : 2) : 0));
          if (inside && flags[i]) ++expected;
        }
        CHECK(averaged.count(begin, count) == expected);
        const AveragedElements part = averaged.within({begin, begin + count});
        for (std::uint64_t i = 0; i < count; ++i)
          CHECK(part.count(i, 1) == (flags[begin + i] ? 1 : 0));
      }
    }
  }
  CHECK(AveragedElements().empty());
  CHECK(AveragedElements().count(0, 10) == 0);
}

}  // namespace
}  // namespace rubato::proto
