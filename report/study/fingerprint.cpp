#include "report/study/fingerprint.hpp"

#include <cstring>

#include "base/file.hpp"

namespace rubato::report {
namespace {

constexpr std::uint64_t kPrime = 0x100000001b3;

template <class T>
std::uint64_t add(const std::vector<T>& values, std::uint64_t hash) {
  return fingerprint(std::as_bytes(std::span(values)), hash);
}
template <class T>
std::uint64_t add(const train::SparseRows<T>& rows, std::uint64_t hash) {
  return add(rows.values, add(rows.positions, add(rows.begins, hash)));
}
std::uint64_t add(const train::Dataset& data, std::uint64_t hash) {
  hash = add(data.labels, hash);
  if (!data.targets.empty()) hash = add(data.targets, hash);
  if (!data.weights.empty()) hash = add(data.weights, hash);
  return std::visit([hash](const auto& values) { return add(values, hash); }, data.features);
}

}  // namespace

std::uint64_t fingerprint(std::span<const std::byte> bytes, std::uint64_t start) {
  std::uint64_t hash = start;
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;  // the upper bits of a word reach the lower ones too
  };
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    mix(word);
  }
  for (; at < bytes.size(); ++at) mix(static_cast<std::uint64_t>(bytes[at]));
  mix(bytes.size());
  return hash;
}

std::uint64_t fingerprint(std::string_view text) {
  return fingerprint(std::as_bytes(std::span(text)));
}

std::uint64_t fingerprint(const train::DataSplit& data) {
  return add(data.held_out, add(data.train, fingerprint(std::string_view())));
}

std::uint64_t program_fingerprint() {
  const auto program = read_file("/proc/self/exe");
  return program ? fingerprint(*program) : 0;
}

}  // namespace rubato::report
