#include "report/run_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "report/comparison.hpp"

namespace rubato::report {
namespace {

constexpr int kResamples = 10'000;
constexpr std::uint64_t kSeed = 1979;
constexpr std::size_t kExactMax = 100;  // values together

// Twice the ranks, so that the mean rank of ties is a whole number; in the order of `values`.
std::vector<std::int64_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<std::int64_t> ranks;
  for (const double value : values) {
    const auto less = std::ranges::count_if(values, [&](double v) { return v < value; });
    const auto equal = std::ranges::count(values, value);
    ranks.push_back(2 * less + equal + 1);
  }
  return ranks;
}

// The share of all choices of `count` of `ranks` whose sum lies at least `distance` from `middle`.
double exact_share(const std::vector<std::int64_t>& ranks, std::size_t count, std::int64_t middle,
                   std::int64_t distance) {
  std::int64_t total = 0;
  for (const std::int64_t rank : ranks) total += rank;
  const auto sums = static_cast<std::size_t>(total) + 1;
  // ways[c][s]: how many choices of c ranks have the sum s. Doubles hold C(100, 50) to 15 digits.
  std::vector<std::vector<double>> ways(count + 1, std::vector<double>(sums, 0));
  ways[0][0] = 1;
  for (const std::int64_t rank : ranks) {
    const auto step = static_cast<std::size_t>(rank);
    for (std::size_t c = count; c >= 1; --c)
      for (std::size_t s = sums; s-- > step;) ways[c][s] += ways[c - 1][s - step];
  }
  double all = 0;
  double far = 0;
  for (std::size_t s = 0; s < sums; ++s) {
    all += ways[count][s];
    // `middle` is doubled as well, so that it is whole.
    if (std::abs(2 * static_cast<std::int64_t>(s) - middle) >= distance) far += ways[count][s];
  }
  return far / all;
}

double normal_share(const std::vector<std::int64_t>& ranks, double count, double distance) {
  const auto all = static_cast<double>(ranks.size());
  double squares = 0;
  for (const std::int64_t rank : ranks) {
    const double apart = static_cast<double>(rank) - (all + 1);
    squares += apart * apart;
  }
  const double variance = count * (all - count) / (all * (all - 1)) * squares;  // of a doubled sum
  if (variance == 0) return 1;
  return std::erfc(distance / 2 / std::sqrt(2 * variance));
}

}  // namespace

Interval bootstrap_median(const std::vector<double>& values) {
  RUBATO_CHECK(!values.empty(), "an interval needs values");
  Rng rng(kSeed);
  std::vector<double> medians;
  std::vector<double> drawn(values.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& value : drawn) value = values[rng.below(values.size())];
    medians.push_back(median(drawn));
  }
  std::ranges::sort(medians);
  const auto at = [&](double share) {
    return medians[static_cast<std::size_t>(share * (kResamples - 1))];
  };
  return {at(0.025), at(0.975)};
}

double mann_whitney(const std::vector<double>& one, const std::vector<double>& other) {
  RUBATO_CHECK(!one.empty() && !other.empty(), "a test needs values");
  std::vector<double> values = one;
  values.insert(values.end(), other.begin(), other.end());
  const auto ranks = doubled_ranks(values);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i) sum += ranks[i];
  // All four times the plain rank sums: ranks are doubled, and so is their middle.
  const auto middle = static_cast<std::int64_t>(2 * one.size() * (values.size() + 1));
  const std::int64_t distance = std::abs(2 * sum - middle);
  if (values.size() <= kExactMax) return exact_share(ranks, one.size(), middle, distance);
  return normal_share(ranks, static_cast<double>(one.size()), static_cast<double>(distance));
}

}  // namespace rubato::report
