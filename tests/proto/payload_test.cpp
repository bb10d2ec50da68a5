// Payloads share bytes and give typed access from any address; shard ranges cover the vector.
#include "proto/payload.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "proto/shard_map.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::proto {
namespace {

TEST_CASE("a payload keeps its owner alive and never copies") {
  auto values = std::make_shared<const std::vector<float>>(std::vector<float>{1, 2, 3, 4});
  const std::weak_ptr<const std::vector<float>> watched = values;
  const float* address = values->data();
  Payload slice = Payload::of(std::move(values)).slice(4, 8);
  CHECK(!watched.expired());
  std::vector<float> scratch;
  const auto floats = slice.floats(scratch);
  CHECK(floats.data() == address + 1);
  CHECK(std::vector<float>(floats.begin(), floats.end()) == std::vector<float>{2, 3});
  slice = Payload();
  CHECK(watched.expired());
}

TEST_CASE("floats at an odd address go through scratch") {
  const std::vector<float> values = {1.5F, -2.5F};
  std::vector<std::byte> bytes(1 + 8);
  std::memcpy(bytes.data() + 1, values.data(), 8);
  const Payload whole = Payload::of(std::make_shared<const std::vector<std::byte>>(bytes));
  std::vector<float> scratch;
  const auto floats = whole.slice(1, 8).floats(scratch);
  CHECK(floats.data() == scratch.data());
  CHECK(scratch == values);
}

TEST_CASE("shard ranges are adjacent, cover all and differ by at most one") {
  for (const std::uint64_t parameters : {0U, 1U, 7U, 10U, 52'650U}) {
    for (const std::uint32_t shards : {1U, 2U, 5U, 9U}) {
      CAPTURE(parameters);
      CAPTURE(shards);
      std::uint64_t covered = 0;
      for (std::uint32_t i = 0; i < shards; ++i) {
        const ElementRange range = shard_range(parameters, i, shards);
        CHECK(range.begin == covered);
        CHECK(range.count() - parameters / shards <= 1);
        covered = range.end;
      }
      CHECK(covered == parameters);
    }
  }
}

}  // namespace
}  // namespace rubato::proto
