// Updates that a GPU packs have the bytes of the host's codecs, and leave what those leave. As
// gpu_test.cpp, it runs on a real GPU in test_gpu and on plain loops in test_host_gpu.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "proto/compression.hpp"
#include "tests/train/gpu_here.hpp"
#include "train/cuda/gpu_packer.hpp"

using namespace rubato;
using namespace rubato::train;
using namespace rubato::train::cuda;

namespace {

using Values = std::vector<float>;
using Bytes = std::vector<std::byte>;

// Chunks of equal size, `chunks` of `count`, in what is worthwhile.
struct Cut {
  std::size_t count, chunks;
};

std::vector<PackedRun> runs_of(const proto::Compression& wanted, const std::vector<Cut>& cuts) {
  std::vector<PackedRun> runs;
  std::size_t begin = 0;
  for (const Cut& cut : cuts) {
    const proto::Compression form = proto::worthwhile(wanted, cut.count);
    runs.push_back({.codec = form.codec,
                    .begin = begin,
                    .count = cut.count,
                    .chunks = cut.chunks,
                    .keep = proto::kept(form, cut.count),
                    .bytes = proto::compressed_bytes(form, cut.count)});
    begin = runs.back().end();
  }
  return runs;
}

std::size_t elements_of(const std::vector<Cut>& cuts) {
  std::size_t sum = 0;
  for (const Cut& cut : cuts) sum += cut.count * cut.chunks;
  return sum;
}

// The host's codecs: payloads one behind the other, each at a whole float.
class HostPacker {
 public:
  explicit HostPacker(std::size_t count) : residual_(count) {}
  Values& residual() { return residual_; }

  std::vector<Bytes> pack(const std::vector<PackedRun>& runs, const proto::Compression& wanted,
                          const Values& update) {
    std::vector<Bytes> out;
    for (const PackedRun& run : runs)
      for (std::size_t c = 0; c < run.chunks; ++c) {
        const std::size_t begin = run.begin + c * run.count;
        auto& payload = out.emplace_back(run.bytes);
        compressor_.compress({run.codec, wanted.keep}, std::span(update).subspan(begin, run.count),
                             std::span(residual_).subspan(begin, run.count), payload);
      }
    return out;
  }

 private:
  Values residual_;
  proto::Compressor compressor_;
};

class OnGpu {
 public:
  OnGpu(Gpu& gpu, std::size_t count)
      : gpu_(gpu),
        count_(count),
        update_(gpu.allocate(count * sizeof(float)).value()),
        broken_(gpu.allocate(sizeof(std::int32_t)).value()) {}

  // The memory of the update, after it was packed.
  Values pack(const Packing& packing, const Values& update, std::int32_t broken = 0) {
    gpu_.copy(Stream::Download, update_.as<float>(), update.data(), count_ * sizeof(float));
    gpu_.copy(Stream::Download, broken_.as<void>(), &broken, sizeof broken);
    floats = packer_.pack(gpu_, packing, update_.as<float>(), count_, broken_.as<std::int32_t>());
    Values out(count_);
    gpu_.copy(Stream::Download, out.data(), update_.as<float>(), count_ * sizeof(float));
    gpu_.wait(Stream::Download);
    return out;
  }
  std::size_t floats = 0;  // of the payloads

 private:
  Gpu& gpu_;
  std::size_t count_;
  Memory update_, broken_;
  GpuPacker packer_;
};

// True when `packed` has these payloads.
bool holds(const OnGpu& gpu, const Values& packed, const std::vector<PackedRun>& runs,
           const std::vector<Bytes>& expected) {
  std::size_t at = 0, next = 0;
  for (const PackedRun& run : runs)
    for (std::size_t c = 0; c < run.chunks; ++c, at += run.stride(), ++next)
      if (std::memcmp(packed.data() + at, expected[next].data(), run.bytes) != 0) return false;
  return at == gpu.floats && next == expected.size();
}

enum class Kind { Normal, Zeros, Denormal, Ties, Wide, Large };

Values values_of(Kind kind, std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  Values values(count);
  for (float& value : values) {
    const double normal = rng.normal();
    switch (kind) {
      case Kind::Normal:
        value = static_cast<float>(normal);
        break;
      case Kind::Zeros:
        value = rng.below(2) == 0 ? 0.0f : -0.0f;
        break;
      case Kind::Denormal:
        value = static_cast<float>(normal * 1e-41);
        break;
      case Kind::Ties:  // exact in each codec, so that ties stay
        value = static_cast<float>(rng.below(4)) - 1.5f;
        break;
      case Kind::Wide:
        value = static_cast<float>(normal * std::pow(10.0, rng.uniform() * 60 - 40));
        break;
      case Kind::Large:
        value = static_cast<float>(normal * 1e37);
        break;
    }
  }
  return values;
}

const proto::Compression kForms[] = {{PayloadCodec::F16},       {PayloadCodec::Bf16},
                                     {PayloadCodec::Int8},      {PayloadCodec::TopK, 0.01},
                                     {PayloadCodec::TopK, 0.3}, {PayloadCodec::TopK, 0.9},
                                     {PayloadCodec::F32}};

const std::vector<Cut> kCuts[] = {
    {{1, 1}},
    {{2, 3}, {1, 1}},
    {{31, 2}, {33, 2}, {7, 1}},
    {{255, 3}, {256, 2}, {257, 1}},
    {{64, 130}, {5, 1}, {64, 2}},  // more chunks than top-k takes at a time
    {{1000, 3}, {999, 1}, {1025, 1}},
};

}  // namespace

TEST_CASE("a GPU packs as the host does, over several commits, whatever the values") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  for (const proto::Compression& wanted : kForms)
    for (const std::vector<Cut>& cuts : kCuts) {
      CAPTURE(proto::codec_name(wanted.codec));
      CAPTURE(wanted.keep);
      CAPTURE(cuts[0].count);
      const std::size_t count = elements_of(cuts);
      const std::vector<PackedRun> runs = runs_of(wanted, cuts);
      HostPacker host(count);
      OnGpu there(*gpu, count);
      std::uint64_t seed = 0;
      for (const Kind kind : {Kind::Normal, Kind::Ties, Kind::Ties, Kind::Zeros, Kind::Denormal,
                              Kind::Wide, Kind::Large, Kind::Zeros, Kind::Normal}) {
        CAPTURE(static_cast<int>(kind));
        const Values update = values_of(kind, count, ++seed);
        const auto expected = host.pack(runs, wanted, update);
        REQUIRE(holds(there, there.pack({.runs = runs}, update), runs, expected));
      }
      // Another codec sends all of the rest.
      const proto::Compression all;
      const std::vector<PackedRun> whole = runs_of(all, cuts);
      const Values nothing(count);
      const auto left = host.pack(whole, all, nothing);
      REQUIRE(holds(there, there.pack({.runs = whole}, nothing), whole, left));
      REQUIRE(std::ranges::all_of(host.residual(), [](float x) { return x == 0; }));
      REQUIRE(there.pack({.runs = whole}, nothing) == nothing);
    }
}

TEST_CASE("a GPU packs chunks around the border of a block of top-k as the host does") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  const auto block = static_cast<std::size_t>(kSparseBlock);
  for (const std::vector<Cut>& cuts :
       {std::vector<Cut>{{block, 1}, {block - 1, 1}}, {{block + 1, 2}}, {{3 * block + 77, 1}}}) {
    const std::size_t count = elements_of(cuts);
    for (const proto::Compression& wanted :
         {proto::Compression{PayloadCodec::TopK, 0.01}, {PayloadCodec::TopK, 0.4}}) {
      const std::vector<PackedRun> runs = runs_of(wanted, cuts);
      HostPacker host(count);
      OnGpu there(*gpu, count);
      std::uint64_t seed = 0;
      for (const Kind kind : {Kind::Normal, Kind::Ties, Kind::Wide}) {
        CAPTURE(count);
        CAPTURE(wanted.keep);
        CAPTURE(static_cast<int>(kind));
        const Values update = values_of(kind, count, ++seed);
        const auto expected = host.pack(runs, wanted, update);
        REQUIRE(holds(there, there.pack({.runs = runs}, update), runs, expected));
      }
    }
  }
}

TEST_CASE("a GPU leaves a broken update as it is, and drops what it is told to forget") {
  const auto gpu = gpu_here();
  if (!gpu) return;
  for (const proto::Compression& wanted : kForms) {
    CAPTURE(proto::codec_name(wanted.codec));
    const std::vector<Cut> cuts = {{300, 2}, {100, 1}};
    const std::size_t count = elements_of(cuts);
    const std::vector<PackedRun> runs = runs_of(wanted, cuts);
    HostPacker host(count);
    OnGpu there(*gpu, count);
    const auto pack = [&](std::uint64_t seed, bool forget) {
      const Values update = values_of(Kind::Normal, count, seed);
      if (forget) std::ranges::fill(host.residual(), 0.0f);
      const auto expected = host.pack(runs, wanted, update);
      REQUIRE(holds(there, there.pack({.runs = runs, .forget = forget}, update), runs, expected));
    };
    Values broken = values_of(Kind::Normal, count, 9);
    broken[7] = std::numeric_limits<float>::infinity();
    pack(1, false);
    CHECK(there.pack({.runs = runs}, broken, 1) == broken);
    pack(2, false);  // with what the first one has left
    pack(3, true);
    pack(4, false);
    CHECK(there.pack({.runs = runs, .forget = true}, broken, 1) == broken);
    std::ranges::fill(host.residual(), 0.0f);
    pack(5, false);
  }
}
