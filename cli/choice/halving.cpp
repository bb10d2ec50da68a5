#include "cli/choice/halving.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.hpp"

namespace rubato::cli {
namespace {

// A part of the budget: of the probes in all.
constexpr double kProbesMax = 0.7;

// So many options get so many seeds. The first round keeps many, since one seed tells little.
struct SeedRound {
  std::size_t options;
  std::size_t seeds;
  bool variants = false;  // of each option, too
};
constexpr SeedRound kSeedRounds[] = {
    {48, 3}, {24, 6}, {Halving::kKept, 12, true}, {6, Halving::kSeedsMax}};
constexpr double kPatienceOfSeeds = 3;  // seeds differ by factors

}  // namespace

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

double typical_time(const std::vector<double>& times, const std::vector<double>& given) {
  bool arrived = false;
  double sum = 0;
  for (std::size_t seed = 0; seed < times.size(); ++seed) {
    arrived = arrived || std::isfinite(times[seed]);
    sum += std::log(std::isfinite(times[seed]) ? times[seed] : kLate * given[seed]);
  }
  if (!arrived) return std::numeric_limits<double>::infinity();
  return std::exp(sum / static_cast<double>(times.size()));
}

Halving::Halving(std::vector<std::optional<std::size_t>> variant_of, const Limits& limits)
    : limits_(limits), seconds_(std::min(limits.first_seconds, limits.last_seconds)) {
  for (std::size_t i = 0; i < variant_of.size(); ++i) {
    RUBATO_CHECK(!variant_of[i] || *variant_of[i] < i, "a variant comes after its option");
    options_.push_back({variant_of[i], !variant_of[i]});
  }
}

const char* Halving::part() const {
  switch (part_) {
    case Part::Probe:
      return "probe";
    case Part::Race:
      return "race";
    case Part::Seeds:
      return "seeds";
    case Part::Over:
      return "over";
  }
  return "over";
}

double Halving::cost_of(const Option& option, double seconds) const {
  const double ran = option.reached() ? option.times[0] : option.seconds;
  const double will = option.reached() ? std::min(seconds, ran) : seconds;
  return ran > 0 ? option.cost * will / ran : option.cost;
}

std::vector<std::size_t> Halving::by_first_seed() const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < options_.size(); ++i)
    if (options_[i].active && !options_[i].times.empty()) order.push_back(i);
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) { return std::pair(options_[i].times[0], options_[i].loss); });
  return order;
}

double Halving::time_of(const Option& option) const {
  return typical_time(option.times, given_);
}

std::vector<std::size_t> Halving::by_time() const {
  auto order = by_first_seed();
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return time_of(options_[i]); });
  return order;
}

std::vector<Halving::Trial> Halving::next() {
  asked_.clear();
  if (part_ == Part::Probe) {
    for (std::size_t i = 0; i < options_.size(); ++i)
      if (options_[i].active) asked_.push_back({i, 0, seconds_});
    return asked_;
  }
  if (part_ == Part::Race) asked_ = race();
  if (asked_.empty() && part_ != Part::Over) {
    part_ = Part::Seeds;
    asked_ = seeds();
  }
  if (asked_.empty()) part_ = Part::Over;
  return asked_;
}

void Halving::add(const std::vector<Result>& results) {
  RUBATO_CHECK(results.size() == asked_.size(), "a result for each run of the round");
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Trial& trial = asked_[k];
    Option& option = options_[trial.option];
    option.times.resize(std::max(option.times.size(), trial.seed + 1), kNever);
    option.times[trial.seed] = results[k].time_to_target.value_or(kNever);
    given_.resize(std::max(given_.size(), trial.seed + 1));
    given_[trial.seed] = std::max(given_[trial.seed], trial.seconds);
    if (trial.seed == 0) {
      option.loss = results[k].loss;
      option.seconds = trial.seconds;
      option.cost = results[k].cost;
    }
    spent_ += results[k].cost;
  }
  if (part_ == Part::Probe) return after_probe();
  if (part_ == Part::Race) part_ = Part::Seeds;
}

void Halving::after_probe() {
  const auto order = by_first_seed();
  if (options_[order.front()].reached()) {
    seconds_ = std::min(kPatience * options_[order.front()].times[0], limits_.last_seconds);
    part_ = Part::Race;
    return;
  }
  if (seconds_ >= limits_.last_seconds) {
    part_ = Part::Over;
    return;
  }
  seconds_ = std::min(2 * seconds_, limits_.last_seconds);
  double sum = spent_;
  for (std::size_t place = 0; place < order.size(); ++place) {
    sum += cost_of(options_[order[place]], seconds_);
    const double most = place < kKept ? kProbesMax : kProbesOfAll;
    if (sum <= most * limits_.budget) continue;
    if (place < kKept) {
      cut_short_ = true;
      part_ = Part::Over;
      return;
    }
    for (std::size_t rest = place; rest < order.size(); ++rest)
      options_[order[rest]].active = false;
    return;
  }
}

// The options that may still be in time: as many as the budget pays for, with what the seeds take
// left over.
std::vector<Halving::Trial> Halving::race() {
  std::vector<Trial> trials;
  double sum = spent_;
  for (const std::size_t i : by_first_seed()) {
    if (options_[i].reached() || options_[i].seconds >= seconds_) continue;
    sum += cost_of(options_[i], seconds_);
    if (sum <= kProbesMax * limits_.budget) trials.push_back({i, 0, seconds_});
  }
  return trials;
}

// Each round may spend an equal part of what is left, and more only for the best two.
std::vector<Halving::Trial> Halving::seeds() {
  while (round_ < std::size(kSeedRounds)) {
    const auto rounds_left = static_cast<double>(std::size(kSeedRounds) - round_);
    const SeedRound& round = kSeedRounds[round_++];
    auto order = by_time();
    if (order.empty()) return {};
    const double best = time_of(options_[order.front()]);
    seconds_ = std::min(kPatienceOfSeeds * best, limits_.last_seconds);
    const double share = spent_ + (limits_.budget - spent_) / rounds_left;
    std::vector<std::size_t> kept;
    std::vector<Trial> trials;
    double sum = spent_;
    // `like`: an option that costs as much.
    const auto keep = [&](std::size_t i, const Option& like) {
      const std::size_t seeds = options_[i].times.size();
      if (seeds < round.seeds)
        sum += static_cast<double>(round.seeds - seeds) * cost_of(like, seconds_);
      if (sum > (kept.size() < 2 ? limits_.budget : share)) return false;
      kept.push_back(i);
      for (std::size_t seed = seeds; seed < round.seeds; ++seed)
        trials.push_back({i, seed, seconds_});
      return true;
    };
    order.resize(std::min(order.size(), round.options));
    bool all = std::ranges::all_of(order, [&](std::size_t i) { return keep(i, options_[i]); });
    if (round.variants)
      for (const std::size_t i : order)
        for (std::size_t v = 0; v < options_.size(); ++v)
          if (options_[v].variant_of == i) all = all && keep(v, options_[i]);
    cut_short_ = cut_short_ || !all;
    if (kept.size() < 2) return {};
    for (std::size_t i = 0; i < options_.size(); ++i)
      options_[i].active = std::ranges::count(kept, i) > 0;
    if (!trials.empty()) return trials;
  }
  return {};
}

std::vector<Halving::Place> Halving::ranking() const {
  std::vector<Place> places;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (!option.times.empty())
      places.push_back({i, option.times, time_of(option), option.loss, option.seconds});
  }
  std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
    if (a.times.size() != b.times.size()) return a.times.size() > b.times.size();
    return std::tie(a.time, a.loss) < std::tie(b.time, b.loss);
  });
  return places;
}

}  // namespace rubato::cli
