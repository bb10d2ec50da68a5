// The update in flight: compressed once, sent again as the same bytes, never lost from the sum.
#include "worker/update_encoder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/rng.hpp"

namespace rubato::worker {
namespace {

using proto::PayloadCodec;

std::shared_ptr<const Floats> values(const std::vector<float>& all) {
  return std::make_shared<const Floats>(all.begin(), all.end());
}

std::vector<float> sent(const UpdateEncoder::Chunk& chunk, std::size_t count) {
  std::vector<float> out(count);
  REQUIRE(proto::decompress(chunk.codec, chunk.payload.bytes(), out).has_value());
  return out;
}

bool same_bytes(const proto::Payload& a, const proto::Payload& b) {
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

TEST_CASE("f32 without a residual is the update itself") {
  UpdateEncoder encoder({}, nullptr, 4, 2);
  const auto update = values({1, 2, 3, 4});
  encoder.begin(update, true);
  const auto chunk = encoder.chunk(2, 2);
  CHECK(static_cast<const void*>(chunk.payload.bytes().data()) == update->data() + 2);
  CHECK(chunk.codec == PayloadCodec::F32);
  encoder.end();
  CHECK_FALSE(encoder.active());
}

TEST_CASE("a chunk that is sent again is the same bytes, and its residual is counted once") {
  UpdateEncoder encoder({PayloadCodec::TopK, 0.25}, nullptr, 8, 4);
  encoder.begin(values({8, 4, 2, 1, 1, 2, 4, 8}), true);
  const auto second = encoder.chunk(4, 4);
  const auto first = encoder.chunk(0, 4);
  CHECK(sent(first, 4) == std::vector<float>{8, 0, 0, 0});
  CHECK(sent(second, 4) == std::vector<float>{0, 0, 0, 8});
  CHECK(same_bytes(encoder.chunk(4, 4).payload, second.payload));
  CHECK(same_bytes(encoder.chunk(0, 4).payload, first.payload));
  // What was left out follows with the next commits, once.
  for (const float next : {4.0f, 2.0f, 1.0f, 0.0f}) {
    encoder.begin(values(std::vector<float>(8)), true);
    const auto now = sent(encoder.chunk(0, 4), 4);
    CHECK(*std::max_element(now.begin(), now.end()) == next);
  }
}

TEST_CASE("what an earlier life has left is sent, whatever the codec is now") {
  for (const auto codec : {PayloadCodec::F32, PayloadCodec::F16}) {
    const auto residual = std::make_shared<Residual>(2);
    residual->values()[1] = 0.5f;
    UpdateEncoder encoder({codec}, residual, 2, 2);
    encoder.begin(values({1, 2}), true);
    CHECK(sent(encoder.chunk(0, 2), 2) == std::vector<float>{1, 2.5f});
    CHECK(residual->values()[1] == 0);
  }
}

TEST_CASE("another codec for every update: what was sent and what is left add up to the updates") {
  UpdateEncoder encoder({}, nullptr, 6, 4);
  std::vector<double> given(6), arrived(6);
  const proto::Compression codecs[] = {{PayloadCodec::F32},       {PayloadCodec::TopK, 0.3},
                                       {PayloadCodec::Int8},      {PayloadCodec::F16},
                                       {PayloadCodec::TopK, 0.5}, {PayloadCodec::F32},
                                       {PayloadCodec::F32},       {PayloadCodec::Bf16}};
  int commit = 0;
  for (const auto& codec : codecs) {
    CAPTURE(proto::codec_name(codec.codec));
    ++commit;
    std::vector<float> update(6);
    for (std::size_t i = 0; i < 6; ++i) {
      update[i] = 0.37f * static_cast<float>(i + static_cast<std::size_t>(commit)) - 1.0f;
      given[i] += update[i];
    }
    encoder.use(codec);
    encoder.begin(values(update), true);
    CHECK(encoder.chunk(0, 4).codec == codec.codec);
    for (const auto& [begin, count] : {std::pair{0, 4}, std::pair{4, 2}}) {
      const auto at = static_cast<std::size_t>(begin), size = static_cast<std::size_t>(count);
      const auto part = sent(encoder.chunk(at, size), size);
      for (std::size_t i = 0; i < size; ++i) arrived[at + i] += part[i];
    }
    encoder.end();
    if (codec.codec != PayloadCodec::F32) continue;
    for (std::size_t i = 0; i < 6; ++i) CHECK(arrived[i] == doctest::Approx(given[i]));
  }
  // Nothing is owed after f32, so it sends the next update as it is.
  const auto update = values({1, 2, 3, 4, 5, 6});
  encoder.use({PayloadCodec::F32});
  encoder.begin(values(std::vector<float>(6)), true);
  (void)encoder.chunk(0, 4);
  encoder.end();  // given up half way: the rest is still owed
  encoder.begin(update, true);
  CHECK(static_cast<const void*>(encoder.chunk(0, 4).payload.bytes().data()) != update->data());
  (void)encoder.chunk(4, 2);
  encoder.end();
  encoder.begin(update, true);
  CHECK(static_cast<const void*>(encoder.chunk(0, 4).payload.bytes().data()) == update->data());
}

const proto::Compression kEdges[] = {{PayloadCodec::Int8},
                                     {PayloadCodec::F16},
                                     {PayloadCodec::TopK, 1},
                                     {PayloadCodec::TopK, 0.75},
                                     {PayloadCodec::TopK, 1e-9}};

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
        encoder.begin(values(update), true);
        for (std::size_t at = 0; at < size; at += 4) {
          const std::size_t count = std::min<std::size_t>(4, size - at);
          const auto chunk = encoder.chunk(at, count);
          CHECK(chunk.payload.size() <= 4 * count);
          const auto arrived = sent(chunk, count);
          if (chunk.codec != PayloadCodec::F32) continue;
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
    encoder.begin(values({0, 0, 0, 0}), true);
    real.begin(values({1, 2, 3, 4, 5, 6, 7, 8, 9}), true);
    for (const auto& [begin, count] : {std::pair{0U, 4U}, {4U, 4U}, {8U, 1U}}) {
      CHECK(encoder.chunk(begin, count).payload.size() == real.chunk(begin, count).payload.size());
      CHECK(encoder.chunk(begin, count).codec == real.chunk(begin, count).codec);
    }
  }
}

TEST_CASE("an update to be discarded travels as it is and leaves the residual alone") {
  const auto residual = std::make_shared<Residual>(2);
  residual->values()[0] = 0.25f;
  UpdateEncoder encoder({PayloadCodec::Int8}, residual, 2, 2);
  encoder.begin(values({1, std::numeric_limits<float>::quiet_NaN()}), false);
  CHECK_FALSE(encoder.finite());
  CHECK(encoder.chunk(0, 2).codec == PayloadCodec::F32);
  CHECK(encoder.chunk(0, 2).payload.size() == 8);
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
  CHECK(encoder.chunk(0, 4).codec == PayloadCodec::TopK);
  CHECK(encoder.chunk(12, 1).codec == PayloadCodec::F32);
  const auto first = [&](std::uint64_t begin, std::uint64_t count) {
    const auto payload = encoder.chunk(begin, count).payload;
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
      encoder.begin(values(std::vector<float>(8)), true);
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

// The encoder of a model without them, given the other elements alone, is the reference.
TEST_CASE("averaged elements follow a chunk as they are, and no codec touches them") {
  const proto::AveragedElements averaged({{0, 1}, {5, 8}, {12, 16}});  // all of the last chunk
  for (const auto& codec : kEdges) {
    CAPTURE(proto::codec_name(codec.codec));
    CAPTURE(codec.keep);
    UpdateEncoder encoder(codec, nullptr, 16, 8, false, averaged);
    UpdateEncoder first(codec, nullptr, 4, 8), second(codec, nullptr, 4, 8);
    Rng rng(3);
    for (int commit = 0; commit < 4; ++commit) {
      std::vector<float> update(16);
      for (float& value : update) value = static_cast<float>(rng.normal());
      update[6] = 3e4f;  // a variance beside small updates
      encoder.begin(values(update), true);
      first.begin(values({update[1], update[2], update[3], update[4]}), true);
      second.begin(values({update[8], update[9], update[10], update[11]}), true);
      for (int time = 0; time < 2; ++time) {  // sent again: the same bytes
        for (const std::uint64_t begin : {0, 8}) {
          const auto chunk = encoder.chunk(begin, 8);
          const auto other = (begin == 0 ? first : second).chunk(0, 4);
          CHECK(chunk.averaged == 4);
          CHECK(chunk.codec == other.codec);
          REQUIRE(chunk.payload.size() == other.payload.size() + 4 * sizeof(float));
          CHECK(chunk.payload.size() <= 8 * sizeof(float));
          CHECK(same_bytes(chunk.payload.slice(0, other.payload.size()), other.payload));
          std::vector<float> scratch;
          const auto means =
              chunk.payload.slice(other.payload.size(), 4 * sizeof(float)).floats(scratch);
          const std::vector<float> expected =
              begin == 0 ? std::vector{update[0], update[5], update[6], update[7]}
                         : std::vector(update.begin() + 12, update.end());
          CHECK(std::vector(means.begin(), means.end()) == expected);
        }
      }
    }
  }
}

TEST_CASE(
    "a chunk of averaged elements alone is their values, and initial values keep their places") {
  UpdateEncoder encoder({PayloadCodec::Int8}, nullptr, 4, 2, false,
                        proto::AveragedElements({{2, 4}}));
  encoder.begin(values({1, 2, 3, 4}), true);
  const auto chunk = encoder.chunk(2, 2);
  CHECK(chunk.averaged == 2);
  CHECK(chunk.codec == PayloadCodec::F32);
  CHECK(sent(chunk, 2) == std::vector<float>{3, 4});
  encoder.begin_plain(values({1, 2, 3, 4}));
  CHECK(encoder.chunk(2, 2).averaged == 0);
  CHECK(sent(encoder.chunk(2, 2), 2) == std::vector<float>{3, 4});
  encoder.begin(values({1, 2, 3, 4}), true);
  CHECK(encoder.chunk(2, 2).averaged == 2);
}

}  // namespace
}  // namespace rubato::worker
