#include <doctest/doctest.h>

#include "server/shard_members.hpp"
#include "tests/server/sent.hpp"

namespace rubato::server {
namespace {

using Added = CommitAssembly::Added;

constexpr Sequence kSequence = 4;

Added add(CommitAssembly& assembly, std::uint64_t offset, std::vector<float> values,
          bool discard = false) {
  const proto::Commit commit{.sequence = kSequence,
                             .offset = offset,
                             .count = values.size(),
                             .total = 10,
                             .steps = 1,
                             .discard = discard};
  const Added added = assembly.note(commit);
  if (added == Added::Fresh)
    assembly.keep({.offset = offset}, tests::payload_of(std::move(values)));
  return added;
}

TEST_CASE("commit assembly: whole and in order, whatever the order of arrival") {
  CommitAssembly assembly;
  assembly.begin(kSequence, 10);
  CHECK(add(assembly, 8, {8, 9}) == Added::Fresh);
  CHECK(add(assembly, 0, {0, 1, 2, 3}) == Added::Fresh);
  CHECK(add(assembly, 0, {0, 1, 2, 3}) == Added::Duplicate);
  CHECK_FALSE(assembly.complete());
  CHECK(add(assembly, 4, {4, 5, 6, 7}) == Added::Fresh);
  REQUIRE(assembly.complete());

  std::vector<float> whole;
  assembly.for_each_chunk([&](const proto::Commit& chunk, const proto::Payload& payload) {
    CHECK(chunk.offset == whole.size());
    const auto values = tests::values_of(payload);
    whole.insert(whole.end(), values.begin(), values.end());
  });
  CHECK(whole == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("commit assembly: nothing is complete before it began or after it ended") {
  CommitAssembly assembly;
  CHECK_FALSE(assembly.complete());
  assembly.begin(kSequence, 2);
  add(assembly, 0, {1, 2});
  CHECK(assembly.complete());
  assembly.end();
  CHECK_FALSE(assembly.complete());
  CHECK(assembly.sequence() == 0);
}

TEST_CASE("commit assembly: tainted by one chunk until the next commit") {
  CommitAssembly assembly;
  assembly.begin(kSequence, 10);
  SUBCASE("that holds NaN") {
    add(assembly, 0, {1, 2});
    assembly.taint(proto::RefusedFor::NotFinite);
  }
  SUBCASE("that is to be discarded: another shard's slice holds NaN") {
    add(assembly, 0, {1, 2}, true);
  }
  add(assembly, 2, {3, 4});
  CHECK(assembly.refused());
  assembly.begin(kSequence + 1, 10);
  CHECK_FALSE(assembly.refused());
}

TEST_CASE("commit assembly: lets go of its chunks when it is answered") {
  CommitAssembly assembly;
  assembly.begin(kSequence, 2);
  const auto values = std::make_shared<const std::vector<float>>(std::vector<float>{1, 2});
  assembly.note({.sequence = kSequence, .offset = 0, .count = 2, .total = 2});
  assembly.keep({}, proto::Payload::of(values));
  CHECK(values.use_count() == 2);
  assembly.end();
  CHECK(values.use_count() == 1);
}

}  // namespace
}  // namespace rubato::server
