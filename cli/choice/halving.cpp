#include "cli/choice/halving.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.hpp"

namespace rubato::cli {
namespace {

// Parts of the budget: of the probes, until options are left out and in all.
constexpr double kProbesOfAll = 0.3;
constexpr double kProbesMax = 0.7;

// So many options get so many seeds.
struct SeedRound {
  std::size_t options;
  std::size_t seeds;
};
constexpr SeedRound kSeedRounds[] = {{16, 3}, {8, 5}, {6, Halving::kSeedsMax}};

}  // namespace

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double upper_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
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

std::vector<std::size_t> Halving::by_median() const {
  auto order = by_first_seed();
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::pair(upper_median(options_[i].times), mean_of(options_[i].times));
  });
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

// The options that may still be in time, then the variants of the best. As many as the budget pays
// for, with what the seeds take left over.
std::vector<Halving::Trial> Halving::race() {
  const auto order = by_first_seed();
  std::vector<Trial> trials;
  double sum = spent_;
  const auto add_trial = [&](std::size_t option, const Option& like) {
    sum += cost_of(like, seconds_);
    if (sum <= kProbesMax * limits_.budget) trials.push_back({option, 0, seconds_});
  };
  for (std::size_t place = 0; place < std::min(kKept, order.size()); ++place)
    for (std::size_t i = 0; i < options_.size(); ++i)
      if (options_[i].variant_of == order[place]) add_trial(i, options_[order[place]]);
  for (const std::size_t i : order)
    if (!options_[i].reached() && options_[i].seconds < seconds_) add_trial(i, options_[i]);
  for (const Trial& trial : trials) options_[trial.option].active = true;
  return trials;
}

std::vector<Halving::Trial> Halving::seeds() {
  while (round_ < std::size(kSeedRounds)) {
    const SeedRound& round = kSeedRounds[round_++];
    auto order = by_median();
    std::erase_if(order, [&](std::size_t i) { return !options_[i].reached(); });
    order.resize(std::min(order.size(), round.options));
    if (order.size() < 2) return {};
    seconds_ =
        std::min(kPatience * upper_median(options_[order.front()].times), limits_.last_seconds);
    std::vector<Trial> trials;
    double sum = spent_;
    for (std::size_t place = 0; place < order.size(); ++place) {
      const Option& option = options_[order[place]];
      double cost = 0;
      for (std::size_t seed = option.times.size(); seed < round.seeds; ++seed)
        cost += cost_of(option, seconds_);
      sum += cost;
      if (sum > limits_.budget) {
        cut_short_ = true;
        if (place < 2) return {};
        order.resize(place);
        break;
      }
      for (std::size_t seed = option.times.size(); seed < round.seeds; ++seed)
        trials.push_back({order[place], seed, seconds_});
    }
    for (std::size_t i = 0; i < options_.size(); ++i)
      options_[i].active = std::ranges::count(order, i) > 0;
    if (!trials.empty()) return trials;
  }
  return {};
}

std::vector<Halving::Place> Halving::ranking() const {
  std::vector<Place> places;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (!option.times.empty())
      places.push_back({i, option.times, upper_median(option.times), mean_of(option.times),
                        option.loss, option.seconds});
  }
  std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
    if (a.times.size() != b.times.size()) return a.times.size() > b.times.size();
    return std::tie(a.median, a.mean, a.loss) < std::tie(b.median, b.mean, b.loss);
  });
  return places;
}

}  // namespace rubato::cli
