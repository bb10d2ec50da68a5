#include "proto/top_k.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/check.hpp"
#include "proto/compression_kernels.hpp"

namespace rubato::proto {
namespace {

constexpr std::size_t kValueBytes = 2;

std::uint32_t magnitude_bits(float x) {
  return static_cast<std::uint32_t>(magnitude(x));
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value{};
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

float value_at(std::span<const std::byte> values, std::size_t index) {
  return from_bf16(load<std::uint16_t>(values, index));
}

bool finite(float x) {
  return magnitude_bits(x) < 0x7f800000U;
}

// A magnitude_bits that more than k elements probably reach, and not many more, from a sample. A
// bad guess costs time, never correctness. Returns: its bits; 0, all elements, when unsure.
std::uint32_t guess(std::span<const float> values, std::size_t k) {
  constexpr std::size_t kSample = 2048;
  if (values.size() < 2 * kSample) return 0;
  const std::size_t stride = values.size() / kSample;
  const double expected =
      static_cast<double>(k) * static_cast<double>(kSample) / static_cast<double>(values.size());
  const auto rank = static_cast<std::size_t>(expected + 4 * std::sqrt(expected) + 8);
  if (rank >= kSample) return 0;
  std::array<std::uint32_t, kSample> sample{};
  for (std::size_t i = 0; i < kSample; ++i) sample[i] = magnitude_bits(values[i * stride]);
  std::nth_element(sample.begin(), sample.begin() + static_cast<std::ptrdiff_t>(rank), sample.end(),
                   std::greater<>());
  return sample[rank];
}

}  // namespace

std::span<const std::uint32_t> TopKSelector::largest(std::span<const float> values, std::size_t k) {
  RUBATO_CHECK(k >= 1 && k <= values.size(), "top-k keeps 1 to n elements");
  const CompressionKernels& kernels = compression_kernels().back();
  const std::size_t n = values.size();
  if (indices_.size() < n) indices_.resize(n);
  std::size_t found = kernels.at_least(values.data(), n, guess(values, k), indices_.data());
  if (found < k) found = kernels.at_least(values.data(), n, 0, indices_.data());

  if (magnitudes_.size() < found) magnitudes_.resize(n);
  for (std::size_t i = 0; i < found; ++i) magnitudes_[i] = magnitude_bits(values[indices_[i]]);
  const auto kth = magnitudes_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(magnitudes_.begin(), kth,
                   magnitudes_.begin() + static_cast<std::ptrdiff_t>(found), std::greater<>());
  const std::uint32_t least = *kth;
  // Everything above `least` lies before it; what is left of k goes to the first equal ones.
  std::size_t ties = k - static_cast<std::size_t>(std::count_if(magnitudes_.begin(), kth,
                                                                [&](auto m) { return m > least; }));
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found; ++i) {
    const std::uint32_t m = magnitude_bits(values[indices_[i]]);
    if (m < least || (m == least && ties == 0)) continue;
    if (m == least) --ties;
    indices_[kept++] = indices_[i];
  }
  return std::span(indices_).first(k);
}

namespace {

// Gathered in pieces through the stack, so that the kernel rounds many at once.
void write_values(std::span<const float> values, std::span<const std::uint32_t> indices,
                  std::span<std::byte> out) {
  const CompressionKernels& kernels = compression_kernels().back();
  std::array<float, 512> piece{};
  for (std::size_t begin = 0; begin < indices.size(); begin += piece.size()) {
    const std::size_t count = std::min(piece.size(), indices.size() - begin);
    for (std::size_t i = 0; i < count; ++i) piece[i] = values[indices[begin + i]];
    kernels.to_bf16(piece.data(), count, out.data() + kValueBytes * begin);
  }
}

}  // namespace

std::size_t top_k_bytes(std::size_t n, std::size_t k) {
  return sparse_blocks(n) * sizeof(std::uint32_t) + k * (sizeof(std::uint16_t) + kValueBytes);
}

void write_top_k(std::span<const float> values, std::span<const std::uint32_t> indices,
                 std::span<std::byte> out) {
  RUBATO_CHECK(out.size() == top_k_bytes(values.size(), indices.size()), "room for the payload");
  const std::size_t blocks = sparse_blocks(values.size());
  const std::span<std::byte> low = out.subspan(blocks * sizeof(std::uint32_t));
  std::size_t i = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = i;
    for (; i < indices.size() && indices[i] / kSparseBlock == block; ++i)
      store(low, i, static_cast<std::uint16_t>(indices[i]));
    store(out, block, static_cast<std::uint32_t>(i - first));
  }
  write_values(values, indices, low.subspan(indices.size() * sizeof(std::uint16_t)));
}

Result<void> read_top_k(std::span<const std::byte> bytes, std::span<float> values) {
  const std::size_t blocks = sparse_blocks(values.size());
  const std::size_t head = blocks * sizeof(std::uint32_t);
  if (bytes.size() < head || (bytes.size() - head) % 4 != 0)
    return fail(ErrorCode::Corrupt, fmt::format("top-k payload of {} bytes for {} elements",
                                                bytes.size(), values.size()));
  const std::size_t k = (bytes.size() - head) / 4;
  const auto low = bytes.subspan(head, k * sizeof(std::uint16_t));
  const auto sent = bytes.subspan(head + low.size());
  std::fill(values.begin(), values.end(), 0.0F);
  std::size_t i = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t count = load<std::uint32_t>(bytes, block);
    const auto part = values.subspan(block * kSparseBlock)
                          .first(std::min(kSparseBlock, values.size() - block * kSparseBlock));
    if (count > part.size() || count > k - i)
      return fail(ErrorCode::Corrupt,
                  fmt::format("top-k block {} claims {} elements of {}", block, count, k));
    std::size_t least = 0;
    for (const std::size_t end = i + count; i < end; ++i) {
      const std::size_t at = load<std::uint16_t>(low, i);
      const float value = value_at(sent, i);
      if (at < least || at >= part.size() || !finite(value))
        return fail(ErrorCode::Corrupt,
                    fmt::format("top-k entry {}: index {} out of order or range, or value {}", i,
                                at, value));
      part[at] = value;
      least = at + 1;
    }
  }
  if (i != k)
    return fail(ErrorCode::Corrupt, fmt::format("top-k payload holds {} entries, names {}", k, i));
  return {};
}

void subtract_sent(std::span<const std::uint32_t> indices, std::span<const std::byte> sent,
                   std::span<float> from) {
  RUBATO_CHECK(sent.size() == indices.size() * kValueBytes, "a value for each index");
  for (std::size_t i = 0; i < indices.size(); ++i) from[indices[i]] -= value_at(sent, i);
}

}  // namespace rubato::proto
