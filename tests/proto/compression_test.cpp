// Payloads: their sizes, what they lose, what error feedback keeps, which elements sparse ones
// choose, and that no bytes whatever are believed or over-read (run under asan and ubsan).
#include "proto/compression.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/numbers.hpp"
#include "base/rng.hpp"
#include "proto/codec.hpp"

namespace rubato::proto {
namespace {

const PayloadCodec kCodecs[] = {PayloadCodec::F32, PayloadCodec::F16, PayloadCodec::Bf16,
                                PayloadCodec::Int8, PayloadCodec::TopK};

std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(n);
  for (float& x : values) x = static_cast<float>(rng.normal());
  return values;
}

std::vector<std::byte> compressed(const Compression& compression,
                                  const std::vector<float>& values) {
  std::vector<std::byte> out(compressed_bytes(compression, values.size()));
  Compressor().compress(compression, values, out);
  return out;
}

std::vector<float> decompressed(PayloadCodec codec, const std::vector<std::byte>& bytes,
                                std::size_t n) {
  std::vector<float> values(n, 99.0F);
  const auto read = decompress(codec, bytes, values);
  REQUIRE_MESSAGE(read.has_value(), read.error().message);
  return values;
}

// The indices of the k largest magnitudes, by sorting all.
std::vector<std::size_t> largest_by_sorting(const std::vector<float>& values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<std::size_t> chosen(TopKSelector& selector, const std::vector<float>& values,
                                std::size_t k) {
  const auto indices = selector.largest(values, k);
  return {indices.begin(), indices.end()};
}

TEST_CASE("sizes on the wire") {
  constexpr std::size_t kChunk = 262'144;
  const auto size = [](PayloadCodec codec) { return compressed_bytes({codec, 0.01}, kChunk); };
  CHECK(size(PayloadCodec::F32) == 4 * kChunk);
  CHECK(size(PayloadCodec::F16) == 2 * kChunk);
  CHECK(size(PayloadCodec::Bf16) == 2 * kChunk);
  CHECK(size(PayloadCodec::Int8) == kChunk + kChunk / 64);  // 0.254 of f32
  CHECK(size(PayloadCodec::TopK) == 4 * 4 + 4 * 2621);      // 99.9 times less
  for (const auto codec : kCodecs) {
    CHECK(compressed_bytes({codec, 0.01}, 0) == 0);
    CHECK(compressed({codec, 0.01}, {}).empty());
    CHECK(decompress(codec, {}, {}));
    CHECK(compressed_bytes({codec, 0.01}, 1) > 0);
  }
}

TEST_CASE("what an element may lose, by codec") {
  const auto values = normal_values(70'001, 3);
  const auto f32 =
      decompressed(PayloadCodec::F32, compressed({PayloadCodec::F32}, values), values.size());
  CHECK(f32 == values);
  for (const auto& [codec, bound] :
       {std::pair{PayloadCodec::F16, 0x1p-11}, std::pair{PayloadCodec::Bf16, 0x1p-8}}) {
    const auto back = decompressed(codec, compressed({codec}, values), values.size());
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // f16 below 2^-14 has a fixed spacing.
      const double scale = std::max(std::abs(double{values[i]}), 0x1p-14);
      worst = std::max(worst, std::abs(double{back[i]} - double{values[i]}) / scale);
    }
    CHECK(worst <= bound);
    CHECK(worst > bound / 4);
  }
}

TEST_CASE("top-k sends the largest, and nothing else") {
  const auto values = normal_values(150'000, 4);  // three blocks, the last one short
  const auto back =
      decompressed(PayloadCodec::TopK, compressed({PayloadCodec::TopK}, values), values.size());
  std::vector<std::size_t> sent;
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (back[i] == 0) continue;
    sent.push_back(i);
    CHECK(std::abs(back[i] - values[i]) <= std::abs(values[i]) * 0x1p-8F);
  }
  CHECK(sent == largest_by_sorting(values, 1500));
}

TEST_CASE("top-k selection agrees with sorting, whatever the values") {
  TopKSelector selector;  // one for all: what it keeps from one chunk must not show in the next
  CHECK(rc::check([&] {
    const auto n = *rc::gen::inRange<std::size_t>(1, 400);
    const auto levels = *rc::gen::inRange(1, 50);
    const auto values = *rc::gen::container<std::vector<float>>(
        n, rc::gen::map(rc::gen::inRange(-levels, levels + 1),
                        [](int level) { return static_cast<float>(level); }));
    const auto k = *rc::gen::inRange<std::size_t>(1, n + 1);
    RC_ASSERT(chosen(selector, values, k) == largest_by_sorting(values, k));
  }));
}

TEST_CASE("top-k selection survives chunks that mislead its sample") {
  TopKSelector selector;
  const std::size_t n = 40'000;  // the sample looks at every 19th element
  std::vector<float> few(n, 0.0F);
  for (std::size_t i = 0; i < n; i += 19) few[i] = 1000.0F - static_cast<float>(i) * 0.01F;
  CHECK(chosen(selector, few, 4000) == largest_by_sorting(few, 4000));  // 2106 are not zero
  std::vector<float> hidden = normal_values(n, 6);
  for (std::size_t i = 0; i < n; i += 19) hidden[i] = 0;
  CHECK(chosen(selector, hidden, 400) == largest_by_sorting(hidden, 400));
  const std::vector<float> equal(n, -2.5F);
  CHECK(chosen(selector, equal, 400) == largest_by_sorting(equal, 400));
}

TEST_CASE("error feedback keeps to the bit what the payload does not say") {
  for (const auto codec : kCodecs) {
    INFO(codec_name(codec));
    const Compression compression{codec, 0.05};
    const auto update = normal_values(70'001, 9);
    auto residual = normal_values(update.size(), 10);
    std::vector<float> to_send(update.size());
    for (std::size_t i = 0; i < update.size(); ++i) to_send[i] = residual[i] + update[i];
    std::vector<std::byte> out(compressed_bytes(compression, update.size()));
    Compressor().compress(compression, update, residual, out);
    CHECK(out == compressed(compression, to_send));
    const auto sent = decompressed(codec, out, update.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < update.size(); ++i)
      if (residual[i] != to_send[i] - sent[i]) ++wrong;
    CHECK(wrong == 0);
  }
}

TEST_CASE("with error feedback a constant update arrives, without it most is lost") {
  const Compression compression{PayloadCodec::TopK, 0.1};
  const auto update = normal_values(500, 12);
  std::vector<float> residual(update.size());
  std::vector<double> arrived(update.size());
  std::vector<std::byte> out(compressed_bytes(compression, update.size()));
  Compressor compressor;
  constexpr int kRounds = 400;
  double without = 0;
  double expected = 0;
  for (int round = 0; round < kRounds; ++round) {
    compressor.compress(compression, update, residual, out);
    const auto sent = decompressed(PayloadCodec::TopK, out, update.size());
    for (std::size_t i = 0; i < sent.size(); ++i) arrived[i] += double{sent[i]};
    compressor.compress(compression, update, out);
    for (const float x : decompressed(PayloadCodec::TopK, out, update.size()))
      without += std::abs(x);
  }
  double missing = 0;
  for (std::size_t i = 0; i < update.size(); ++i) {
    missing += std::abs(arrived[i] - kRounds * double{update[i]});
    expected += kRounds * std::abs(double{update[i]});
  }
  CHECK(missing / expected < 0.05);
  CHECK(without / expected < 0.5);
}

TEST_CASE(
    "whatever part is kept, a payload is accepted, and what is worthwhile is never above f32") {
  for (const std::size_t n : {1U, 2U, 3U, 4U, 255U, 256U, 257U, 65'535U, 65'536U, 65'537U}) {
    const auto values = normal_values(n, n);
    std::size_t room = 0;
    for (const auto codec : kCodecs) {
      const double all_but_one =
          std::max(1e-9, static_cast<double>(n - 1) / static_cast<double>(n));
      for (const double keep : {1e-300, 1e-9, 0.5, all_but_one, 1.0}) {
        CAPTURE(n);
        CAPTURE(codec_name(codec));
        CAPTURE(keep);
        const Compression wanted{codec, keep};
        const auto bytes = compressed(wanted, values);
        CHECK(check_compressed_bytes(codec, n, bytes.size()));
        decompressed(codec, bytes, n);  // requires that it can be
        const Compression form = worthwhile(wanted, n);
        CHECK(form.codec == (bytes.size() < 4 * n ? codec : PayloadCodec::F32));
        const std::size_t least = compressed_bytes(form, n);
        CHECK(least <= 4 * n);
        CHECK(payload_floats(wanted, n) == (least + 3) / 4);
        // Of fewer elements, too.
        for (const std::size_t fewer : {n - 1, n / 2, n / 4, std::size_t{0}})
          CHECK(compressed_bytes(worthwhile(wanted, fewer), fewer) <=
                4 * payload_floats(wanted, n));
        room = std::max(room, payload_floats(wanted, n));
      }
    }
    CHECK(room == n);
  }
}

TEST_CASE("a size that does not fit is refused before anything is read") {
  const auto refused = [](PayloadCodec codec, std::uint64_t count, std::size_t bytes) {
    const auto checked = check_compressed_bytes(codec, count, bytes);
    return !checked && checked.error().code == ErrorCode::Corrupt &&
           checked.error().message.find('\n') == std::string::npos;
  };
  for (const auto codec : kCodecs) {
    INFO(codec_name(codec));
    for (const std::size_t count : {1U, 100U, 256U, 257U, 65'536U, 65'537U}) {
      const std::size_t bytes = compressed_bytes({codec, 0.01}, count);
      CHECK(check_compressed_bytes(codec, count, bytes));
      CHECK(refused(codec, count, bytes - 1));
      CHECK(refused(codec, count, bytes + 1));
      CHECK(refused(codec, count, 0));
      CHECK(refused(codec, 0, bytes));
    }
    // A few bytes must not make a receiver reserve terabytes.
    CHECK(refused(codec, std::uint64_t{1} << 62, 100));
    CHECK(refused(codec, kPayloadBytesMax / 4 + 1, 100));
    CHECK(refused(codec, 10, std::size_t{1} << 40));
  }
  CHECK(refused(static_cast<PayloadCodec>(5), 1, 4));
  CHECK(refused(static_cast<PayloadCodec>(255), 1, 4));
}

TEST_CASE("hostile bytes never crash, and what is believed is finite") {
  CHECK(rc::check([] {
    const auto codec = *rc::gen::elementOf(std::vector<PayloadCodec>(
        {PayloadCodec::F16, PayloadCodec::Bf16, PayloadCodec::Int8, PayloadCodec::TopK}));
    const auto n = *rc::gen::oneOf(rc::gen::inRange<std::size_t>(1, 600),
                                   rc::gen::inRange<std::size_t>(65'530, 65'600));
    const Compression compression{codec, *rc::gen::elementOf(std::vector<double>{0.001, 0.1, 1})};
    auto bytes = compressed(compression, normal_values(n, 1));
    Rng rng(*rc::gen::arbitrary<std::uint64_t>());
    const int damage = *rc::gen::inRange(0, 4);
    if (damage == 0) {  // all of it
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
    } else if (damage == 1) {  // a byte
      bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
    } else if (damage == 2) {  // its length
      bytes.resize(rng.below(2 * bytes.size() + 1), std::byte{0xff});
    }
    bytes.shrink_to_fit();  // so that asan sees the first byte behind
    std::vector<float> values(n);
    const auto read = decompress(codec, bytes, values);
    if (read) RC_ASSERT(all_finite(values));
    if (!read) RC_ASSERT(read.error().code == ErrorCode::Corrupt);
    if (damage == 3) RC_ASSERT(read.has_value());
  }));
}

std::string why_refused(PayloadCodec codec, const std::vector<std::byte>& bytes, std::size_t n) {
  std::vector<float> values(n);
  const auto read = decompress(codec, bytes, values);
  return read ? "" : read.error().message;
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

TEST_CASE("a damaged payload is refused with what is wrong") {
  const std::vector<float> values = {4, 3, 2, 1};
  const auto top = compressed({PayloadCodec::TopK, 0.5}, values);  // count, indices 0 and 1, values
  REQUIRE(top.size() == 12);
  auto bytes = top;
  put<std::uint16_t>(bytes, 4, 1);  // 1, 1
  CHECK(why_refused(PayloadCodec::TopK, bytes, 4).find("index 1 out of order") !=
        std::string::npos);
  bytes = top;
  put<std::uint16_t>(bytes, 6, 4);  // behind the end
  CHECK(why_refused(PayloadCodec::TopK, bytes, 4).find("index 4") != std::string::npos);
  bytes = top;
  put<std::uint32_t>(bytes, 0, 1);
  CHECK(why_refused(PayloadCodec::TopK, bytes, 4).find("holds 2 entries, names 1") !=
        std::string::npos);
  put<std::uint32_t>(bytes, 0, 3);
  CHECK(why_refused(PayloadCodec::TopK, bytes, 4).find("claims 3 elements of 2") !=
        std::string::npos);
  bytes = top;
  put<std::uint16_t>(bytes, 8, 0x7f80);
  CHECK(why_refused(PayloadCodec::TopK, bytes, 4).find("value inf") != std::string::npos);

  for (const float scale : {-1.0F, NAN, INFINITY, 3e38F}) {
    auto int8 = compressed({PayloadCodec::Int8}, values);
    put(int8, 0, scale);
    CHECK(why_refused(PayloadCodec::Int8, int8, 4).find("scale") != std::string::npos);
  }
  auto half = compressed({PayloadCodec::F16}, values);
  put<std::uint16_t>(half, 6, 0x7c00);
  CHECK(why_refused(PayloadCodec::F16, half, 4) == "f16 payload holds NaN or infinity");
}

}  // namespace
}  // namespace rubato::proto
