// Every version of every loop against references that share nothing with it: the formats' closed
// forms and a search for the nearest representable value.
#include "proto/compression_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/checksum.hpp"
#include "base/rng.hpp"

namespace rubato::proto {
namespace {

// The value of an IEEE 754 number of 1 + exponent_bits + mantissa_bits bits.
double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = bits & ((1U << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

struct Half {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  void (*CompressionKernels::*to)(const float*, std::size_t, std::byte*);
  bool (*CompressionKernels::*from)(const std::byte*, std::size_t, float*);

  double value(unsigned bits) const { return value_of(bits, exponent_bits, mantissa_bits); }
  unsigned infinity() const { return ((1U << exponent_bits) - 1) << mantissa_bits; }

  // The nearest finite number; of two equally near ones the one with an even mantissa.
  std::uint16_t nearest(float x) const {
    const double a = std::abs(static_cast<double>(x));
    unsigned low = 0;  // bits of the largest number that is not above a
    for (unsigned step = 1U << 14; step != 0; step /= 2)
      if (low + step < infinity() && value(low + step) <= a) low += step;
    if (low + 1 < infinity()) {
      const double below = a - value(low);
      const double above = value(low + 1) - a;
      if (above < below || (above == below && low % 2 == 1)) ++low;
    }
    return static_cast<std::uint16_t>(low | (std::signbit(x) ? 0x8000U : 0U));
  }
};

const Half kF16 = {"f16", 5, 10, &CompressionKernels::to_f16, &CompressionKernels::from_f16};
const Half kBf16 = {"bf16", 8, 7, &CompressionKernels::to_bf16, &CompressionKernels::from_bf16};

// Finite floats of every magnitude, and those at which rounding changes its mind.
std::vector<float> hard_values(const Half& half) {
  std::vector<float> values = {0.0F,
                               -0.0F,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::lowest(),
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::min()};
  for (unsigned bits = 0; bits + 1 < half.infinity(); bits += 7) {
    const double middle = (half.value(bits) + half.value(bits + 1)) / 2;
    const auto x = static_cast<float>(middle);
    values.push_back(x);
    values.push_back(-x);
    values.push_back(std::nextafter(x, 0.0F));
    values.push_back(std::nextafter(x, 1e30F));
  }
  Rng rng(5);
  for (int i = 0; i < 20'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    if (std::isfinite(x)) values.push_back(x);
  }
  return values;
}

TEST_CASE("halves round to the nearest, ties to even, and stay finite") {
  for (const Half& half : {kF16, kBf16}) {
    const auto values = hard_values(half);
    std::vector<std::uint16_t> expected;
    expected.reserve(values.size());
    for (const float x : values) expected.push_back(half.nearest(x));
    for (const CompressionKernels& kernels : compression_kernels()) {
      INFO(half.name, " ", kernels.isa);
      std::vector<std::uint16_t> got(values.size());
      (kernels.*half.to)(values.data(), values.size(), reinterpret_cast<std::byte*>(got.data()));
      const auto at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
      INFO("first difference at ", at);
      CHECK(got == expected);
    }
  }
}

TEST_CASE("every half has its value, and NaN and infinity are reported") {
  for (const Half& half : {kF16, kBf16}) {
    for (const CompressionKernels& kernels : compression_kernels()) {
      INFO(half.name, " ", kernels.isa);
      int wrong = 0;
      for (unsigned bits = 0; bits < 0x10000U; ++bits) {
        const auto in = static_cast<std::uint16_t>(bits);
        float out = -1;
        const bool finite = (kernels.*half.from)(reinterpret_cast<const std::byte*>(&in), 1, &out);
        const double value = half.value(bits);
        if (finite != std::isfinite(value)) ++wrong;
        if (finite && (out != value || std::signbit(out) != std::signbit(value))) ++wrong;
      }
      CHECK(wrong == 0);
      // One bad value among many good ones, wherever it is.
      std::vector<std::uint16_t> many(100, 0x3c00);
      std::vector<float> out(many.size());
      const auto* const bytes = reinterpret_cast<const std::byte*>(many.data());
      CHECK((kernels.*half.from)(bytes, many.size(), out.data()));
      for (std::size_t i = 0; i < many.size(); ++i) {
        many[i] = static_cast<std::uint16_t>(half.infinity());
        CHECK_FALSE((kernels.*half.from)(bytes, many.size(), out.data()));
        many[i] = 0x3c00;
      }
    }
  }
}

TEST_CASE("int8 is within half a step of a 127th of its block's largest") {
  Rng rng(7);
  const std::size_t n = 3 * kInt8Block + 17;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i)
    values[i] = static_cast<float>(rng.normal() * std::pow(10.0, i / kInt8Block * 8));
  const std::size_t blocks = 4;
  for (const CompressionKernels& kernels : compression_kernels()) {
    INFO(kernels.isa);
    std::vector<float> scales(blocks);
    std::vector<std::byte> codes(n);
    auto* const scale_bytes = reinterpret_cast<std::byte*>(scales.data());
    kernels.to_int8(values.data(), n, scale_bytes, codes.data());
    std::vector<float> back(n);
    kernels.from_int8(scale_bytes, codes.data(), n, back.data());
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::size_t end = std::min(n, (block + 1) * kInt8Block);
      float largest = 0;
      double error = 0;
      for (std::size_t i = block * kInt8Block; i < end; ++i) {
        largest = std::max(largest, std::abs(values[i]));
        error = std::max(error, std::abs(double{back[i]} - double{values[i]}));
      }
      CHECK(scales[block] == largest / 127);
      CHECK(error <= largest / 127 * 0.50001);
      CHECK(error > 0);
    }
  }
}

TEST_CASE("int8 blocks that are zero, tiny or huge come back finite") {
  const float huge = std::numeric_limits<float>::max();
  for (const CompressionKernels& kernels : compression_kernels()) {
    for (const float x : {0.0F, 1e-45F, 1e-37F, -1e-30F, 1.0F, -huge, huge}) {
      const std::vector<float> values(5, x);
      float scale = -1;
      auto* const scales = reinterpret_cast<std::byte*>(&scale);
      std::vector<std::byte> codes(values.size());
      std::vector<float> back(values.size(), -1);
      kernels.to_int8(values.data(), values.size(), scales, codes.data());
      kernels.from_int8(scales, codes.data(), values.size(), back.data());
      CHECK(scale <= kInt8ScaleMax);
      CHECK(std::isfinite(back[0]));
      // Half a step; at the end of the range a 128th is lost.
      CHECK(std::abs(back[0] - x) <= std::max(std::abs(x) / 100, 2e-36F));
    }
    CHECK(std::isfinite(kInt8ScaleMax * -128));
  }
}

// The bytes of every loop's result, from unaligned memory.
std::vector<std::byte> results(const CompressionKernels& kernels, const std::vector<float>& in) {
  const std::size_t n = in.size();
  std::vector<std::byte> all;
  const auto keep = [&all](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    all.insert(all.end(), bytes.begin(), bytes.end());
  };
  std::vector<std::byte> bytes(4 * n + 1);
  std::vector<float> floats(n);
  std::byte* const odd = bytes.data() + 1;
  kernels.to_f16(in.data(), n, odd);
  keep(bytes);
  kernels.from_f16(odd, n, floats.data());
  keep(floats);
  kernels.to_bf16(in.data(), n, odd);
  keep(bytes);
  kernels.from_bf16(odd, n, floats.data());
  keep(floats);
  std::vector<std::byte> scales(n / kInt8Block * 4 + 5);
  kernels.to_int8(in.data(), n, scales.data() + 1, odd);
  keep(scales);
  keep(bytes);
  kernels.from_int8(scales.data() + 1, odd, n, floats.data());
  keep(floats);
  std::vector<std::uint32_t> indices(n);
  indices.resize(kernels.at_least(in.data(), n, 0x3f800000U, indices.data()));
  keep(indices);
  kernels.add(in.data(), n, floats.data());
  keep(floats);
  std::vector<float> difference(n, 0.125F);
  kernels.subtract(in.data(), n, difference.data());
  keep(difference);
  return all;
}

TEST_CASE("all versions give the bits of the plain one, at any length") {
  Rng rng(11);
  MESSAGE("versions on this machine: ", compression_kernels().size());
  for (const std::size_t n : {1U, 7U, 31U, 32U, 33U, 255U, 256U, 257U, 1000U, 4099U}) {
    std::vector<float> in(n);
    for (float& x : in) {
      do x = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
      while (!std::isfinite(x));
      if (rng.below(2) == 0) x = static_cast<float>(rng.normal());
    }
    const auto expected = results(compression_kernels().front(), in);
    for (const CompressionKernels& kernels : compression_kernels()) {
      INFO(kernels.isa, " ", n);
      CHECK(results(kernels, in) == expected);
    }
  }
}

TEST_CASE("the bits are the same on every processor, NEON included") {
  Rng rng(17);
  std::vector<float> in(4099);
  for (float& x : in) {  // exact arithmetic, for libraries' logarithms differ
    do x = std::bit_cast<float>(static_cast<std::uint32_t>(rng.next()));
    while (!std::isfinite(x));
    if (rng.below(2) == 0) x = (static_cast<float>(rng.below(1U << 24)) - 0x1p23F) * 0x1p-21F;
  }
  for (const CompressionKernels& kernels : compression_kernels()) {
    INFO(kernels.isa);
    CHECK(checksum(results(kernels, in)) == 2600437201443101460U);
  }
}

TEST_CASE("at_least finds what a plain loop finds") {
  Rng rng(13);
  std::vector<float> values(777);
  for (float& x : values) x = static_cast<float>(rng.normal());
  for (const float least : {0.0F, 0.5F, 2.0F, 1e9F}) {
    std::vector<std::uint32_t> expected;
    for (std::uint32_t i = 0; i < values.size(); ++i)
      if (std::abs(values[i]) >= least) expected.push_back(i);
    for (const CompressionKernels& kernels : compression_kernels()) {
      std::vector<std::uint32_t> got(values.size());
      got.resize(kernels.at_least(values.data(), values.size(), std::bit_cast<std::uint32_t>(least),
                                  got.data()));
      CHECK(got == expected);
    }
  }
}

}  // namespace
}  // namespace rubato::proto
