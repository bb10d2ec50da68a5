#include "server/commit_assembly.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/server/sent.hpp"

namespace rubato::server {
namespace {

using Added = CommitAssembly::Added;
using Offsets = std::vector<std::uint64_t>;

constexpr Sequence kSequence = 4;

Added add(CommitAssembly& assembly, std::uint64_t offset, std::vector<float> values) {
  const proto::Commit commit{
      .sequence = kSequence, .offset = offset, .count = values.size(), .total = 10, .steps = 1};
  return assembly.add(commit, tests::payload_of(std::move(values)));
}

CommitAssembly of_ten() {
  return {kSequence, 10};
}

TEST_CASE("commit assembly: complete once every element is there, in any order of chunks") {
  auto assembly = of_ten();
  CHECK(add(assembly, 8, {8, 9}) == Added::Fresh);
  CHECK(add(assembly, 0, {0, 1, 2, 3}) == Added::Fresh);
  CHECK_FALSE(assembly.complete());
  CHECK(add(assembly, 4, {4, 5, 6, 7}) == Added::Fresh);
  REQUIRE(assembly.complete());

  std::vector<float> whole;
  assembly.for_each_chunk([&](std::uint64_t offset, std::span<const float> values) {
    CHECK(offset == whole.size());
    whole.insert(whole.end(), values.begin(), values.end());
  });
  CHECK(whole == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("commit assembly: nothing is complete before it began") {
  CHECK_FALSE(CommitAssembly().complete());
}

TEST_CASE("commit assembly: a chunk that came before is a duplicate, and counts once") {
  auto assembly = of_ten();
  add(assembly, 0, {0, 1, 2, 3, 4});
  CHECK(add(assembly, 0, {0, 1, 2, 3, 4}) == Added::Duplicate);
  CHECK_FALSE(assembly.complete());
}

TEST_CASE("commit assembly: chunks that overlap are told, and change nothing") {
  auto assembly = of_ten();
  add(assembly, 4, {4, 5, 6, 7});
  CHECK(add(assembly, 4, {4, 5}) == Added::Overlap);           // same place, another size
  CHECK(add(assembly, 2, {2, 3, 4}) == Added::Overlap);        // into the next one
  CHECK(add(assembly, 7, {7, 8, 9}) == Added::Overlap);        // into the one before
  CHECK(add(assembly, 5, {std::nanf("")}) == Added::Overlap);  // inside
  CHECK(assembly.finite());
  CHECK(add(assembly, 0, {0, 1, 2, 3}) == Added::Fresh);
  CHECK(add(assembly, 8, {8, 9}) == Added::Fresh);
  CHECK(assembly.complete());
}

TEST_CASE("commit assembly: missing offsets are exactly the chunks that are not there") {
  auto assembly = of_ten();
  add(assembly, 4, {4, 5});
  CHECK(assembly.missing_offsets() == Offsets{0, 2, 6, 8});
  add(assembly, 0, {0, 1});
  CHECK(assembly.missing_offsets() == Offsets{2, 6, 8});
  add(assembly, 8, {8, 9});
  CHECK(assembly.missing_offsets() == Offsets{2, 6});
  add(assembly, 2, {2, 3});
  add(assembly, 6, {6, 7});
  CHECK(assembly.missing_offsets().empty());
}

TEST_CASE("commit assembly: a short last chunk does not pass for the size of the others") {
  auto assembly = of_ten();
  add(assembly, 8, {8, 9});  // of chunks of 4
  CHECK(assembly.missing_offsets().empty());
  add(assembly, 4, {4, 5, 6, 7});
  CHECK(assembly.missing_offsets() == Offsets{0});
}

TEST_CASE("commit assembly: one NaN or infinity anywhere taints the whole commit") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), -std::nanf("1"), inf, -inf}) {
    CAPTURE(bad);
    for (std::size_t at = 0; at < 10; ++at) {
      std::vector<float> values(10, 1.0f);
      values[at] = bad;
      auto assembly = of_ten();
      add(assembly, 0, values);
      CHECK_FALSE(assembly.finite());
    }
  }
  auto assembly = of_ten();
  add(assembly, 0, std::vector<float>(10, std::numeric_limits<float>::max()));
  CHECK(assembly.finite());
  const proto::Commit elsewhere{.sequence = kSequence, .count = 10, .total = 10, .discard = true};
  auto discarded = of_ten();
  discarded.add(elsewhere, tests::payload_of(std::vector<float>(10, 1.0f)));
  CHECK(discarded.complete());
  CHECK_FALSE(discarded.finite());
}

}  // namespace
}  // namespace rubato::server
