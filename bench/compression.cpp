// bench/compression.cpp - compressing and decompressing one chunk of 1 MiB, in bytes of float32 a
// second, beside memcpy of the same chunk in the same run; and the bytes that travel.
// Names: encode (no feedback), feedback (encode + what stays in the residual), decode; the plain
// loops beside those of this CPU under kernel/.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "proto/compression.hpp"
#include "proto/compression_kernels.hpp"

namespace {

using namespace rubato;
using namespace rubato::proto;

constexpr std::size_t kCount = (1U << 20) / sizeof(float);

std::vector<float> update() {
  Rng rng(1);
  std::vector<float> values(kCount);
  for (float& x : values) x = static_cast<float>(rng.normal() * 1e-3);
  return values;
}

void report(benchmark::State& state, std::size_t payload) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kCount * sizeof(float)));
  state.counters["times_smaller"] =
      static_cast<double>(kCount * sizeof(float)) / static_cast<double>(payload);
}

void copy(benchmark::State& state) {
  const auto values = update();
  std::vector<float> out(kCount);
  for (auto _ : state) {
    std::memcpy(out.data(), values.data(), kCount * sizeof(float));
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  report(state, kCount * sizeof(float));
}

void encode(benchmark::State& state, Compression compression) {
  const auto values = update();
  std::vector<std::byte> out(compressed_bytes(compression, kCount));
  Compressor compressor;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    compressor.compress(compression, values, ++seed, out);
    benchmark::ClobberMemory();
  }
  report(state, out.size());
}

void feedback(benchmark::State& state, Compression compression) {
  const auto values = update();
  std::vector<float> residual(kCount);
  std::vector<std::byte> out(compressed_bytes(compression, kCount));
  Compressor compressor;
  std::uint64_t seed = 0;
  for (auto _ : state) {
    compressor.compress(compression, values, residual, ++seed, out);
    benchmark::ClobberMemory();
  }
  report(state, out.size());
}

void decode(benchmark::State& state, Compression compression) {
  const auto values = update();
  std::vector<std::byte> bytes(compressed_bytes(compression, kCount));
  Compressor().compress(compression, values, 1, bytes);
  std::vector<float> out(kCount);
  for (auto _ : state) {
    if (!decompress(compression.codec, bytes, out)) state.SkipWithError("payload refused");
    benchmark::ClobberMemory();
  }
  report(state, bytes.size());
}

void to_half(benchmark::State& state, const CompressionKernels& kernels) {
  const auto values = update();
  std::vector<std::byte> out(2 * kCount);
  for (auto _ : state) {
    kernels.to_f16(values.data(), kCount, out.data());
    benchmark::ClobberMemory();
  }
  report(state, out.size());
}

void to_int8(benchmark::State& state, const CompressionKernels& kernels) {
  const auto values = update();
  std::vector<std::byte> scales(kCount / kInt8Block * sizeof(float));
  std::vector<std::byte> codes(kCount);
  for (auto _ : state) {
    kernels.to_int8(values.data(), kCount, scales.data(), codes.data());
    benchmark::ClobberMemory();
  }
  report(state, scales.size() + codes.size());
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("memcpy", copy);
  for (const auto codec : {PayloadCodec::F32, PayloadCodec::F16, PayloadCodec::Bf16,
                           PayloadCodec::Int8, PayloadCodec::TopK, PayloadCodec::RandomK}) {
    const std::string name = codec_name(codec);
    const Compression compression{.codec = codec};
    benchmark::RegisterBenchmark((name + "/encode").c_str(), encode, compression);
    benchmark::RegisterBenchmark((name + "/feedback").c_str(), feedback, compression);
    benchmark::RegisterBenchmark((name + "/decode").c_str(), decode, compression);
  }
  for (const CompressionKernels& kernels : compression_kernels()) {
    const std::string name = std::string("kernel/") + kernels.isa;
    benchmark::RegisterBenchmark((name + "/f16").c_str(), to_half, kernels);
    benchmark::RegisterBenchmark((name + "/int8").c_str(), to_int8, kernels);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
