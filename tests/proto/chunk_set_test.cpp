#include "proto/chunk_set.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>

#include "base/rng.hpp"

namespace rubato::proto {
namespace {

using Added = ChunkSet::Added;
using Offsets = std::vector<std::uint64_t>;

ChunkSet of_ten() {
  ChunkSet set;
  set.begin(10);
  return set;
}

TEST_CASE("chunk set: complete once every element is there, in any order of chunks") {
  auto set = of_ten();
  CHECK(set.add(8, 2) == Added::Fresh);
  CHECK(set.add(0, 4) == Added::Fresh);
  CHECK_FALSE(set.complete());
  CHECK(set.add(4, 4) == Added::Fresh);
  CHECK(set.complete());
  set.begin(3);
  CHECK_FALSE(set.complete());
  CHECK(set.add(0, 3) == Added::Fresh);
  CHECK(set.complete());
}

TEST_CASE("chunk set: what is there without a gap, from the first element on") {
  auto set = of_ten();
  CHECK(set.prefix() == 0);
  set.add(4, 4);
  CHECK(set.prefix() == 0);
  set.add(0, 2);
  CHECK(set.prefix() == 2);
  set.add(0, 2);
  CHECK(set.prefix() == 2);
  set.add(2, 2);
  CHECK(set.prefix() == 8);
  set.add(8, 2);
  CHECK(set.prefix() == 10);
  set.begin(3);
  CHECK(set.prefix() == 0);
}

TEST_CASE("chunk set: a chunk that came before is a duplicate, and counts once") {
  auto set = of_ten();
  set.add(0, 5);
  CHECK(set.add(0, 5) == Added::Duplicate);
  CHECK_FALSE(set.complete());
}

TEST_CASE("chunk set: chunks that overlap are told, and change nothing") {
  auto set = of_ten();
  set.add(4, 4);
  CHECK(set.add(4, 2) == Added::Overlap);  // same place, another size
  CHECK(set.add(2, 3) == Added::Overlap);  // into the next one
  CHECK(set.add(7, 3) == Added::Overlap);  // into the one before
  CHECK(set.add(5, 1) == Added::Overlap);  // inside
  CHECK(set.add(0, 4) == Added::Fresh);
  CHECK(set.add(8, 2) == Added::Fresh);
  CHECK(set.complete());
}

TEST_CASE("chunk set: missing offsets are exactly the chunks that are not there") {
  auto set = of_ten();
  set.add(4, 2);
  CHECK(set.missing_offsets(100) == Offsets{0, 2, 6, 8});
  set.add(0, 2);
  CHECK(set.missing_offsets(100) == Offsets{2, 6, 8});
  set.add(8, 2);
  CHECK(set.missing_offsets(100) == Offsets{2, 6});
  set.add(2, 2);
  set.add(6, 2);
  CHECK(set.missing_offsets(100).empty());
}

TEST_CASE("chunk set: of a huge slice in tiny chunks only the first missing ones are named") {
  ChunkSet set;
  set.begin(std::uint64_t{1} << 40);
  set.add(1, 1);
  set.add(4, 1);
  CHECK(set.missing_offsets(4) == Offsets{0, 2, 3, 5});
  CHECK(set.missing_offsets(2) == Offsets{0, 2});
  CHECK(set.missing_offsets(3).capacity() <= 4);
}

TEST_CASE("chunk set: a short last chunk does not pass for the size of the others") {
  auto set = of_ten();
  set.add(8, 2);  // of chunks of 4
  CHECK(set.missing_offsets(100).empty());
  set.add(4, 4);
  CHECK(set.missing_offsets(100) == Offsets{0});
}

TEST_CASE("chunk set: any ranges in any order, against a mark on every element") {
  CHECK(rc::check("chunk set", [] {
    const auto total = *rc::gen::inRange<std::uint64_t>(1, 24);
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    ChunkSet set;
    set.begin(total);
    std::vector<bool> here(total);
    std::map<std::uint64_t, std::uint64_t> chunks;
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t offset = rng.below(total);
      const std::uint64_t count = 1 + rng.below(std::min<std::uint64_t>(4, total - offset));
      const auto at = here.begin() + static_cast<std::ptrdiff_t>(offset);
      const auto end = at + static_cast<std::ptrdiff_t>(count);
      Added expected = Added::Fresh;
      if (chunks.contains(offset) && chunks[offset] == count) {
        expected = Added::Duplicate;
      } else if (std::find(at, end, true) != end) {
        expected = Added::Overlap;
      } else {
        chunks[offset] = count;
        std::fill(at, end, true);
      }
      RC_ASSERT(set.add(offset, count) == expected);
      RC_ASSERT(set.complete() == (std::find(here.begin(), here.end(), false) == here.end()));
    }
  }));
}

}  // namespace
}  // namespace rubato::proto
