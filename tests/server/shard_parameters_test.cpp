#include "server/shard_parameters.hpp"

#include <doctest/doctest.h>

#include "base/checksum.hpp"
#include "base/rng.hpp"
#include "tests/server/sent.hpp"

namespace rubato::server {
namespace {

using Values = std::vector<float>;

Values read(const ShardParameters& shard, std::uint64_t offset, std::uint64_t count) {
  Values all;
  shard.for_each_piece(offset, count,
                       [&](std::uint64_t at, std::uint64_t n, const proto::Payload& payload) {
                         CHECK(at == offset + all.size());
                         const auto values = tests::values_of(payload);
                         CHECK(values.size() == n);
                         all.insert(all.end(), values.begin(), values.end());
                       });
  return all;
}

TEST_CASE("shard parameters: a snapshot stays as it was, and can be gone back to again and again") {
  ShardParameters shard(Values{1, 2, 3, 4, 5}, 2);
  Optimizer optimizer({.global_rate = 1.0}, 5);
  const auto snapshot = shard.snapshot();
  for (int again = 0; again < 3; ++again) {
    shard.apply(optimizer, 1, Values{1, 1, 1}, {1.0f}, ShardParameters::Checksum::Compute);
    shard.move_towards(0, Values{9, 9, 9, 9, 9}, 0.5f);
    CHECK(shard.values() == Values{5, 5, 5.5, 6, 7});
    shard.restore(snapshot);
    CHECK(shard.values() == Values{1, 2, 3, 4, 5});
  }
  ShardParameters other(Values{0, 0, 0, 0, 0}, 2);
  other.restore(snapshot);
  other.move_towards(0, Values{1, 1, 1, 1, 1}, 1.0f);
  CHECK(other.values() == Values{1, 1, 1, 1, 1});
  CHECK(shard.values() == Values{1, 2, 3, 4, 5});
}

TEST_CASE("shard parameters: any range of any update, against one flat vector") {
  Rng rng(3);
  for (const std::uint64_t chunk : {1u, 3u, 7u, 10u, 99u}) {
    CAPTURE(chunk);
    Values expected(10);
    for (float& w : expected) w = static_cast<float>(rng.normal());
    ShardParameters shard(expected, chunk);
    Optimizer optimizer({.global_rate = 1.0}, expected.size());
    std::vector<proto::Payload> held;  // replies under way
    std::vector<Values> were;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t offset = rng.below(10);
      Values update(1 + rng.below(10 - offset));
      for (float& u : update) u = static_cast<float>(rng.normal());
      const auto hash =
          rng.below(2) > 0 ? ShardParameters::Checksum::Compute : ShardParameters::Checksum::Skip;
      shard.apply(optimizer, offset, update, {0.5f}, hash);
      for (std::size_t j = 0; j < update.size(); ++j) expected[offset + j] -= 0.5f * update[j];
      CHECK(shard.values() == expected);
      CHECK(read(shard, offset, update.size()) ==
            Values(expected.begin() + static_cast<std::ptrdiff_t>(offset),
                   expected.begin() + static_cast<std::ptrdiff_t>(offset + update.size())));
      shard.for_each_piece(0, 10, [&](std::uint64_t, std::uint64_t, const proto::Payload& piece) {
        if (piece.checksum()) CHECK(piece.checksum() == checksum(piece.bytes()));
        if (rng.below(3) > 0) return;
        held.push_back(piece);
        were.push_back(tests::values_of(piece));
      });
      for (std::size_t j = 0; j < held.size(); ++j) CHECK(tests::values_of(held[j]) == were[j]);
    }
  }
}

TEST_CASE(
    "shard parameters: a chunk that changed as a whole knows its checksum, until it changes") {
  const std::size_t chunk = 3 * kChecksumBlockBytes / sizeof(float) + 1;
  ShardParameters shard(Values(chunk + 5, 1.0f), chunk);
  Optimizer optimizer({.global_rate = 1.0}, chunk + 5);
  const auto known = [&](std::uint64_t offset, std::uint64_t count) {
    bool all = true;
    shard.for_each_piece(offset, count,
                         [&](std::uint64_t, std::uint64_t, const proto::Payload& piece) {
                           all = all && piece.checksum() == checksum(piece.bytes());
                         });
    return all;
  };
  const auto change = [&](std::uint64_t offset, std::size_t count) {
    shard.apply(optimizer, offset, Values(count, 0.25f), {1.0f},
                ShardParameters::Checksum::Compute);
  };
  CHECK_FALSE(known(0, chunk));  // nobody asked
  change(0, chunk);
  CHECK(known(0, chunk));
  CHECK_FALSE(known(0, chunk - 1));
  CHECK_FALSE(known(chunk, 5));
  change(chunk, 5);  // the last chunk is shorter
  CHECK(known(0, chunk + 5));
  change(1, chunk - 1);
  CHECK_FALSE(known(0, chunk));
  CHECK(known(chunk, 5));
}

TEST_CASE("shard parameters: a chunk that nobody holds changes in place") {
  ShardParameters shard(Values{1, 2, 3, 4}, 2);
  Optimizer optimizer({.global_rate = 1.0}, 4);
  const auto address = [&] {
    const std::byte* first = nullptr;
    shard.for_each_piece(0, 2, [&](std::uint64_t, std::uint64_t, const proto::Payload& payload) {
      first = payload.bytes().data();
    });
    return first;
  };
  const auto* const before = address();
  shard.apply(optimizer, 0, Values{1, 1}, {1.0f});
  CHECK(address() == before);
}

TEST_CASE("shard parameters: none at all, where there are more servers than parameters") {
  const ShardParameters shard(Values{}, 5);
  CHECK(shard.size() == 0);
  CHECK(shard.values().empty());
  CHECK(read(shard, 0, 0).empty());
}

}  // namespace
}  // namespace rubato::server
