#include "worker/update_alignment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/check.hpp"

namespace rubato::worker {
namespace {

constexpr double kLengthEwma = 0.1;
constexpr std::size_t kBlock = 64;  // floats: four lines of cache

// In eight sums, whatever vectors the processor has: the same bits on every CPU.
double dot(std::span<const float> a, std::span<const float> b) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane)
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  double sum = 0;
  for (const double part : sums) sum += part;
  for (; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

double length_of(std::span<const float> a) {
  return std::sqrt(dot(a, a));
}

// 0 where one of them is empty or nothing. `length`: of a.
double cosine(std::span<const float> a, double length, std::span<const float> b) {
  if (a.size() != b.size()) return 0;
  const double product = length * length_of(b);
  if (!(product > 0) || !std::isfinite(product)) return 0;
  return std::clamp(dot(a, b) / product, -1.0, 1.0);
}

}  // namespace

void UpdateAlignment::sample(std::span<const float> all, std::vector<float>& out) const {
  out.clear();
  if (all.size() <= kSampleMax) return add_block(all, 0, all.size(), out);
  constexpr std::size_t kBlocks = kSampleMax / kBlock;
  for (std::size_t i = 0; i < kBlocks; ++i)
    add_block(all, (all.size() - kBlock) * i / (kBlocks - 1), kBlock, out);
}

void UpdateAlignment::add_block(std::span<const float> all, std::size_t at, std::size_t count,
                                std::vector<float>& out) const {
  const auto block = all.subspan(at, count);
  const std::size_t begin = out.size();
  out.insert(out.end(), block.begin(), block.end());
  averaged_.for_each(at, count, [&](std::uint64_t offset, std::uint64_t n) {
    std::ranges::fill(std::span(out).subspan(begin + offset - at, n), 0.0f);
  });
}

void UpdateAlignment::on_loaded(std::span<const float> parameters) {
  if (loaded_.empty()) return sample(parameters, loaded_);
  sample(parameters, during_);
  RUBATO_CHECK(during_.size() == loaded_.size(), "parameters of another model");
  for (std::size_t i = 0; i < during_.size(); ++i)
    during_[i] = std::exchange(loaded_[i], during_[i]) - during_[i];
}

UpdateAlignment::Seen UpdateAlignment::on_commit(std::span<const float> update, double rates,
                                                 bool overlapped) {
  std::swap(update_, last_);
  sample(update, update_);
  const double norm = length_of(update_);
  Seen seen{.cosines = {.own = cosine(update_, norm, last_),
                        .during = overlapped ? cosine(update_, norm, during_)
                                             : cosine(last_, length_of(last_), during_)}};
  const double length = norm / rates;
  if (length_ > 0 && length > kLongest * length_) seen.part = kLongest * length_ / length;
  const double kept = length * seen.part;
  if (std::isfinite(kept)) length_ = length_ > 0 ? length_ + kLengthEwma * (kept - length_) : kept;
  return seen;
}

}  // namespace rubato::worker
