// The checksum in blocks is the checksum of the whole, and what rides on its pass is right.
#include "base/checksum.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.hpp"
#include "proto/codec.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::proto {
namespace {

std::vector<std::byte> noise(std::size_t size) {
  Rng rng(7);
  std::vector<std::byte> bytes(size);
  for (auto& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

TEST_CASE("checksum: the published value of XXH3-64, and 0 for nothing") {
  CHECK(checksum({}) == 0);
  const std::string text = "a";  // xxhsum -H3 of one byte 'a'
  CHECK(checksum(std::as_bytes(std::span(text))) == 0xe6c632b61e964e1fULL);
}

TEST_CASE("checksum: block by block as in one go, however it is cut") {
  const auto bytes = noise(3 * kChecksumBlockBytes + 5);
  for (const std::size_t size : {1u, 16u, 240u, 241u, 1024u, 8192u, 8193u, 24581u}) {
    for (const std::size_t block : {1u, 100u, 1024u, 8192u}) {
      if (size / block > 2000) continue;
      CAPTURE(size);
      CAPTURE(block);
      const auto all = std::span(bytes).first(size);
      RunningChecksum running;
      for (std::size_t at = 0; at < size; at += block)
        running.add(all.subspan(at, std::min(block, size - at)));
      CHECK(running.value() == checksum(all));
    }
  }
}

TEST_CASE("look through: checksum and largest of any number of floats, aligned or not") {
  for (const std::size_t count : {1u, 7u, 2048u, 2049u, 9000u}) {
    for (const std::size_t shift : {0u, 1u}) {
      CAPTURE(count);
      CAPTURE(shift);
      std::vector<std::byte> memory(count * sizeof(float) + shift);
      const auto floats = std::span(memory).subspan(shift);
      const auto set = [&](std::size_t i, float value) {
        std::memcpy(floats.data() + i * sizeof(float), &value, sizeof(value));
      };
      for (std::size_t i = 0; i < count; ++i) set(i, static_cast<float>(i) - 3.5f);
      set(count / 2, -std::numeric_limits<float>::max());
      CHECK(look_through(floats).largest == std::numeric_limits<float>::max());
      CHECK(look_through(floats).checksum == checksum(floats));
      using Limits = std::numeric_limits<float>;
      for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                              std::bit_cast<float>(0xffffffffu)}) {
        for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
          set(at, bad);
          CHECK_FALSE(std::isfinite(look_through(floats).largest));
          CHECK(look_through(floats).checksum == checksum(floats));
          set(at, 1);
        }
      }
    }
  }
}

TEST_CASE("a decoded payload brings what its check found, a commit also its largest element") {
  const auto decoded = [](const Message& message, PayloadChecksum check) {
    const Encoded encoded = encode(message, check);
    return decode(encoded.control, encoded.payload, check).value().payload;
  };
  Message message = samples::commit(1, 1000);
  Payload payload = decoded(message, PayloadChecksum::Verify);
  CHECK(payload.checksum() == checksum(payload.bytes()));
  CHECK(payload.largest() == largest_magnitude(payload.bytes()));
  CHECK(*payload.largest() > 0);
  CHECK_FALSE(payload.slice(0, 4).checksum());
  CHECK_FALSE(payload.slice(0, 4).largest());

  message.payload = Payload::of(
      std::make_shared<const std::vector<float>>(1000, std::numeric_limits<float>::quiet_NaN()));
  CHECK(std::isnan(*decoded(message, PayloadChecksum::Verify).largest()));

  payload = decoded(message, PayloadChecksum::Skip);
  CHECK_FALSE(payload.checksum());
  CHECK_FALSE(payload.largest());
}

TEST_CASE("a checksum that is known is not computed again: a wrong one is refused on arrival") {
  Message message = samples::commit(1, 1000);
  message.payload.set_checksum(checksum(message.payload.bytes()));
  const Encoded right = encode(message);
  CHECK(decode(right.control, right.payload));
  message.payload.set_checksum(1);
  const Encoded wrong = encode(message);
  CHECK_FALSE(decode(wrong.control, wrong.payload));
}

}  // namespace
}  // namespace rubato::proto
