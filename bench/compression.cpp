// bench/compression.cpp - compressing and decompressing one chunk of 1 MiB, in bytes of float32 a
// second, beside memcpy of the same chunk in turns; the bytes that travel beside float32; and the
// plain loops of the kernels beside those of this CPU.
// Usage: bench_compression [--json FILE] [--quick | --smoke]
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "bench/rows.hpp"
#include "proto/compression.hpp"
#include "proto/compression_kernels.hpp"

namespace {

using namespace rubato;
using namespace rubato::proto;

constexpr std::size_t kCount = (1U << 20) / sizeof(float);
constexpr double kChunkBytes = kCount * sizeof(float);

std::vector<float> random_update() {
  Rng rng(1);
  std::vector<float> values(kCount);
  for (float& x : values) x = static_cast<float>(rng.normal() * 1e-3);
  return values;
}

// The buffers that every measurement works on, and how often.
struct Bench {
  const std::vector<float> values = random_update();
  std::vector<float> copy = std::vector<float>(kCount);
  std::vector<float> residual = std::vector<float>(kCount);
  std::vector<float> decoded = std::vector<float>(kCount);
  Compressor compressor;
  int turns = 0;
  int repeats = 0;
  std::vector<bench::Row> rows;

  // GB/s of `work` on one chunk, beside that of `peer` in turns.
  void measure(const std::string& name, const std::function<void()>& work,
               const std::string& peer_name, const std::function<void()>& peer) {
    std::vector<double> seconds[2];
    for (int turn = -1; turn < turns; ++turn) {
      for (const bool ours : {false, true}) {
        const Instant began = steady_now();
        for (int i = 0; i < repeats; ++i) ours ? work() : peer();
        if (turn >= 0) seconds[ours].push_back((steady_now() - began).seconds() / repeats);
      }
    }
    rows.push_back({name, 1e-9 * kChunkBytes / bench::median(seconds[1]), "GB/s", peer_name,
                    1e-9 * kChunkBytes / bench::median(seconds[0]), ""});
  }
};

void measure_codec(Bench& b, PayloadCodec codec, const std::string& size_bar) {
  const Compression compression{.codec = codec};
  std::vector<std::byte> bytes(compressed_bytes(compression, kCount));
  const std::string name = proto::codec_name(codec);
  const auto memory = [&b] { std::memcpy(b.copy.data(), b.values.data(), kCount * sizeof(float)); };
  b.measure(
      name + " encode", [&] { b.compressor.compress(compression, b.values, bytes); }, "memcpy",
      memory);
  b.measure(
      name + " encode with error feedback",
      [&] { b.compressor.compress(compression, b.values, b.residual, bytes); }, "memcpy", memory);
  bool decoded = true;
  b.measure(
      name + " decode",
      [&] { decoded = decoded && decompress(codec, bytes, b.decoded).has_value(); }, "memcpy",
      memory);
  if (!decoded) fmt::print(stderr, "{}: its own payload was refused\n", name);
  b.rows.push_back({name + " bytes of a chunk", static_cast<double>(bytes.size()), "bytes",
                    "float32", kChunkBytes, size_bar});
}

void measure_kernels(Bench& b) {
  const CompressionKernels& plain = compression_kernels().front();
  const CompressionKernels& best = compression_kernels().back();
  std::vector<std::byte> halves(2 * kCount);
  std::vector<std::byte> scales(kCount / kInt8Block * sizeof(float));
  std::vector<std::byte> codes(kCount);
  const auto half = [&](const CompressionKernels& kernels) {
    return [&] { kernels.to_f16(b.values.data(), kCount, halves.data()); };
  };
  const auto int8 = [&](const CompressionKernels& kernels) {
    return [&] { kernels.to_int8(b.values.data(), kCount, scales.data(), codes.data()); };
  };
  b.measure(fmt::format("f16 kernel, {}", best.isa), half(best), "plain loop", half(plain));
  b.measure(fmt::format("int8 kernel, {}", best.isa), int8(best), "plain loop", int8(plain));
}

}  // namespace

int main(int argc, char** argv) {
  const bench::RunOptions options = bench::parse_options(argc, argv);
  Bench b;
  b.turns = options.smoke ? 1 : (options.quick ? 5 : 15);
  b.repeats = options.smoke ? 1 : 20;
  measure_codec(b, PayloadCodec::F16, "<= 0.5");
  measure_codec(b, PayloadCodec::Bf16, "<= 0.5");
  measure_codec(b, PayloadCodec::Int8, "<= 0.27");
  measure_codec(b, PayloadCodec::TopK, "<= 0.0333");
  measure_kernels(b);
  if (const auto done = bench::report(options, b.rows); !done) {
    fmt::print(stderr, "bench_compression: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
