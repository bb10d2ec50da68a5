// The update in flight: compressed once, sent again as the same bytes, never lost from the sum.
#include "worker/update_encoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace rubato::worker {
namespace {

using proto::PayloadCodec;

std::shared_ptr<const Floats> values(const std::vector<float>& all) {
  return std::make_shared<const Floats>(all.begin(), all.end());
}

std::vector<float> sent(const UpdateEncoder& encoder, const proto::Payload& payload,
                        std::size_t count) {
  std::vector<float> out(count);
  REQUIRE(proto::decompress(encoder.codec(count), payload.bytes(), out).has_value());
  return out;
}

bool same_bytes(const proto::Payload& a, const proto::Payload& b) {
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

TEST_CASE("f32 without a residual is the update itself") {
  UpdateEncoder encoder({}, nullptr, 4, 2);
  const auto update = values({1, 2, 3, 4});
  encoder.begin(update, true, 1);
  const auto payload = encoder.chunk(2, 2);
  CHECK(static_cast<const void*>(payload.bytes().data()) == update->data() + 2);
  CHECK(encoder.codec(4) == PayloadCodec::F32);
  encoder.end();
  CHECK_FALSE(encoder.active());
}

TEST_CASE("a chunk that is sent again is the same bytes, and its residual is counted once") {
  UpdateEncoder encoder({PayloadCodec::TopK, 0.25}, nullptr, 8, 4);
  encoder.begin(values({8, 4, 2, 1, 1, 2, 4, 8}), true, 1);
  const auto second = encoder.chunk(4, 4);
  const auto first = encoder.chunk(0, 4);
  CHECK(sent(encoder, first, 4) == std::vector<float>{8, 0, 0, 0});
  CHECK(sent(encoder, second, 4) == std::vector<float>{0, 0, 0, 8});
  CHECK(same_bytes(encoder.chunk(4, 4), second));
  CHECK(same_bytes(encoder.chunk(0, 4), first));
  // What was left out follows with the next commits, once.
  for (const float next : {4.0f, 2.0f, 1.0f, 0.0f}) {
    encoder.begin(values(std::vector<float>(8)), true, 1);
    const auto now = sent(encoder, encoder.chunk(0, 4), 4);
    CHECK(*std::max_element(now.begin(), now.end()) == next);
  }
}

TEST_CASE("what an earlier life has left is sent, whatever the codec is now") {
  for (const auto codec : {PayloadCodec::F32, PayloadCodec::F16}) {
    const auto residual = std::make_shared<Residual>(2);
    residual->values()[1] = 0.5f;
    UpdateEncoder encoder({codec}, residual, 2, 2);
    encoder.begin(values({1, 2}), true, 1);
    CHECK(sent(encoder, encoder.chunk(0, 2), 2) == std::vector<float>{1, 2.5f});
    CHECK(residual->values()[1] == 0);
  }
}

TEST_CASE("another codec for every update: what was sent and what is left add up to the updates") {
  UpdateEncoder encoder({}, nullptr, 6, 4);
  std::vector<double> given(6), arrived(6);
  const proto::Compression codecs[] = {
      {PayloadCodec::F32},          {PayloadCodec::TopK, 0.3}, {PayloadCodec::Int8},
      {PayloadCodec::RandomK, 0.3}, {PayloadCodec::F16},       {PayloadCodec::TopK, 0.5},
      {PayloadCodec::F32},          {PayloadCodec::F32},       {PayloadCodec::Bf16}};
  std::uint64_t seed = 0;
  for (const auto& codec : codecs) {
    CAPTURE(proto::codec_name(codec.codec));
    ++seed;
    std::vector<float> update(6);
    for (std::size_t i = 0; i < 6; ++i) {
      update[i] = 0.37f * static_cast<float>(i + seed) - 1.0f;
      given[i] += update[i];
    }
    encoder.use(codec);
    encoder.begin(values(update), true, seed);
    CHECK(encoder.codec(4) == codec.codec);
    for (const auto& [begin, count] : {std::pair{0, 4}, std::pair{4, 2}}) {
      const auto at = static_cast<std::size_t>(begin), size = static_cast<std::size_t>(count);
      const auto part = sent(encoder, encoder.chunk(at, size), size);
      for (std::size_t i = 0; i < size; ++i) arrived[at + i] += part[i];
    }
    encoder.end();
    if (codec.codec != PayloadCodec::F32) continue;
    for (std::size_t i = 0; i < 6; ++i) CHECK(arrived[i] == doctest::Approx(given[i]));
  }
  // Nothing is owed after f32, so it sends the next update as it is.
  const auto update = values({1, 2, 3, 4, 5, 6});
  encoder.use({PayloadCodec::F32});
  encoder.begin(values(std::vector<float>(6)), true, 1);
  (void)encoder.chunk(0, 4);
  encoder.end();  // given up half way: the rest is still owed
  encoder.begin(update, true, 1);
  CHECK(static_cast<const void*>(encoder.chunk(0, 4).bytes().data()) != update->data());
  (void)encoder.chunk(4, 2);
  encoder.end();
  encoder.begin(update, true, 1);
  CHECK(static_cast<const void*>(encoder.chunk(0, 4).bytes().data()) == update->data());
}

const proto::Compression kEdges[] = {{PayloadCodec::Int8},         {PayloadCodec::F16},
                                     {PayloadCodec::TopK, 1},      {PayloadCodec::TopK, 0.75},
                                     {PayloadCodec::TopK, 1e-9},   {PayloadCodec::RandomK, 1},
                                     {PayloadCodec::RandomK, 0.5}, {PayloadCodec::RandomK, 1e-9}};

TEST_CASE("a chunk that no codec makes smaller travels as f32 and leaves nothing behind") {
  for (const auto& codec : kEdges) {
    for (const std::size_t size : {1U, 2U, 3U, 4U, 5U}) {
      CAPTURE(proto::codec_name(codec.codec));
      CAPTURE(codec.keep);
      CAPTURE(size);
      const auto residual = std::make_shared<Residual>(size);
      UpdateEncoder encoder(codec, residual, size, 4);
      for (int round = 0; round < 2; ++round) {
        const std::vector<float> update(size, 1.001f);
        encoder.begin(values(update), true, 1);
        for (std::size_t at = 0; at < size; at += 4) {
          const std::size_t count = std::min<std::size_t>(4, size - at);
          const auto payload = encoder.chunk(at, count);
          CHECK(payload.size() <= 4 * count);
          const auto arrived = sent(encoder, payload, count);
          if (encoder.codec(count) != PayloadCodec::F32) continue;
          CHECK(arrived == std::vector<float>(count, 1.001f));
          for (const float left : residual->values().subspan(at, count)) CHECK(left == 0);
        }
        encoder.end();
      }
    }
  }
}

TEST_CASE("a blank update has room for every codec") {
  for (const auto& codec : kEdges) {
    CAPTURE(proto::codec_name(codec.codec));
    CAPTURE(codec.keep);
    UpdateEncoder encoder(codec, nullptr, 9, 4, true);
    UpdateEncoder real(codec, nullptr, 9, 4);
    encoder.begin(values({0, 0, 0, 0}), true, 1);
    real.begin(values({1, 2, 3, 4, 5, 6, 7, 8, 9}), true, 1);
    for (const auto& [begin, count] : {std::pair{0U, 4U}, {4U, 4U}, {8U, 1U}}) {
      CHECK(encoder.chunk(begin, count).size() == real.chunk(begin, count).size());
      CHECK(encoder.codec(count) == real.codec(count));
    }
  }
}

TEST_CASE("an update to be discarded travels as it is and leaves the residual alone") {
  const auto residual = std::make_shared<Residual>(2);
  residual->values()[0] = 0.25f;
  UpdateEncoder encoder({PayloadCodec::Int8}, residual, 2, 2);
  encoder.begin(values({1, std::numeric_limits<float>::quiet_NaN()}), false, 1);
  CHECK_FALSE(encoder.finite());
  CHECK(encoder.codec(2) == PayloadCodec::F32);
  CHECK(encoder.chunk(0, 2).size() == 8);
  CHECK(residual->values()[0] == 0.25f);
  CHECK(residual->values()[1] == 0);
}

proto::ShardMap packed_shards(std::uint64_t parameters, std::uint32_t shards) {
  proto::ShardMap map;
  for (std::uint32_t i = 0; i < shards; ++i)
    map.shards.push_back({proto::shard_range(parameters, i, shards), "server"});
  return map;
}

TEST_CASE("a device packs the chunks of each shard, in what is worthwhile") {
  UpdateEncoder encoder({PayloadCodec::TopK, 0.25}, nullptr, 26, 4);
  const auto packing = encoder.packing(packed_shards(26, 2), 4);  // 13 each: 4 4 4 1
  CHECK_FALSE(packing.forget);
  REQUIRE(packing.runs.size() == 4);
  const auto is = [](const train::PackedRun& run, PayloadCodec codec, std::size_t begin,
                     std::size_t count, std::size_t chunks, std::size_t bytes) {
    return run.codec == codec && run.begin == begin && run.count == count && run.chunks == chunks &&
           run.bytes == bytes;
  };
  CHECK(is(packing.runs[0], PayloadCodec::TopK, 0, 4, 3, 8));
  CHECK(packing.runs[0].keep == 1);
  CHECK(is(packing.runs[1], PayloadCodec::F32, 12, 1, 1, 4));
  CHECK(is(packing.runs[2], PayloadCodec::TopK, 13, 4, 3, 8));
  CHECK(is(packing.runs[3], PayloadCodec::F32, 25, 1, 1, 4));
  // Seven floats a shard: two for each chunk of top-k, and one.
  std::vector<float> payloads(14);
  for (std::size_t i = 0; i < payloads.size(); ++i) payloads[i] = static_cast<float>(i);
  encoder.begin_packed(values(payloads));
  CHECK(encoder.active());
  CHECK(encoder.finite());
  CHECK(encoder.codec(4) == PayloadCodec::TopK);
  CHECK(encoder.codec(1) == PayloadCodec::F32);
  const auto first = [&](std::uint64_t begin, std::uint64_t count) {
    const auto payload = encoder.chunk(begin, count);
    CHECK(payload.size() == (count == 4 ? 8 : 4));
    std::vector<float> scratch;
    return payload.floats(scratch)[0];
  };
  CHECK(first(0, 4) == 0);
  CHECK(first(8, 4) == 4);
  CHECK(first(12, 1) == 6);
  CHECK(first(13, 4) == 7);
  CHECK(first(17, 4) == 9);
  CHECK(first(25, 1) == 13);
  CHECK(first(4, 4) == 2);  // sent again
}

TEST_CASE("a device packs f32 only while it has something left of other codecs") {
  UpdateEncoder encoder({}, nullptr, 8, 4);
  const auto map = packed_shards(8, 1);
  const auto packs = [&] {
    const bool packed = !encoder.packing(map, 4).runs.empty();
    if (packed)
      encoder.begin_packed(values(std::vector<float>(8)));
    else
      encoder.begin(values(std::vector<float>(8)), true, 1);
    encoder.end();
    return packed;
  };
  CHECK_FALSE(packs());
  encoder.use({PayloadCodec::F16});
  CHECK(packs());
  encoder.use({});
  CHECK(packs());
  CHECK_FALSE(packs());
}

TEST_CASE("a device drops what it has left when the host would, once") {
  const auto map = packed_shards(8, 1);
  UpdateEncoder encoder({PayloadCodec::F16}, nullptr, 8, 4);
  CHECK(encoder.join(7) == Residual::Left::Nothing);
  const auto forgets = [&] {
    const bool forget = encoder.packing(map, 4).forget;
    encoder.begin_packed(values(std::vector<float>(4)));
    return forget;
  };
  CHECK_FALSE(forgets());
  encoder.drop_residual();  // refused
  encoder.end();
  CHECK(forgets());
  encoder.end();
  CHECK_FALSE(forgets());
  encoder.end();
  CHECK(encoder.rebase(2));
  CHECK_FALSE(encoder.rebase(2));
  CHECK(forgets());
  encoder.end();
  CHECK_FALSE(forgets());
  encoder.end();
  CHECK(encoder.join(8) == Residual::Left::AnotherRun);
  CHECK(forgets());
  encoder.end();
  CHECK(encoder.rebase(1));  // counted anew in each run
  // With nothing left there is nothing to drop, also where the device was not asked yet.
  encoder.use({});
  CHECK(encoder.packing(map, 4).runs.empty());
  CHECK(encoder.join(9) == Residual::Left::Nothing);
  encoder.use({PayloadCodec::F16});
  CHECK(forgets());
}

}  // namespace
}  // namespace rubato::worker
