// cli/choice/halving.hpp - which runs of which options come next, so that the quickest option is
// found with few of them: successive halving (Jamieson and Talwalkar, AISTATS 2016) in three parts.
// 1. Probe: every option runs with one seed for a short time. The time doubles until an option
//    reaches the target. If the budget does not pay for all, those with the highest loss are left
//    out, but never fewer than kKept stay.
// 2. Race: the others run for kPatience times the best time.
// 3. Seeds: fewer and fewer options get more and more seeds. The typical time decides. One seed
//    tells little: an option that did not arrive with the first one stays, if its loss is low.
//    Each of the best brings its variants.
// The budget is a sum of costs that the caller names for each run. If costs do not depend on the
// machine, neither does the choice.
// Pure. Units: seconds of the run; costs in any unit. Errors: none. Threads: one owner.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace rubato::cli {

class Halving {
 public:
  static constexpr std::size_t kKept = 8;
  static constexpr double kProbesOfAll = 0.3;  // of the budget: then options are left out
  static constexpr double kPatience = 1.5;     // of the race
  static constexpr std::size_t kSeedsMax = 24;

  struct Limits {
    double first_seconds = 0;  // of the first probe
    double last_seconds = 0;   // of any run
    double budget = 0;
  };
  // `variant_of`: of each option, the option that it is a variant of; empty: it runs from the
  // start. A variant comes after its option.
  Halving(std::vector<std::optional<std::size_t>> variant_of, const Limits& limits);

  struct Trial {
    std::size_t option = 0;
    std::size_t seed = 0;  // from 0 on
    double seconds = 0;    // the run ends then, unless it reaches the target before
    bool operator==(const Trial&) const = default;
  };
  struct Result {
    std::optional<double> time_to_target;
    double loss = std::numeric_limits<double>::infinity();  // at the end; infinite: diverged
    double cost = 0;
  };
  // Returns: the runs of the next round; none: the search is over. add() follows.
  std::vector<Trial> next();
  // Of the runs of next(), in their order.
  void add(const std::vector<Result>& results);

  struct Place {
    std::size_t option = 0;
    std::vector<double> times;  // by seed; infinite: not reached in the time it was given
    double time = 0;            // typical_time()
    double loss = 0;            // of the first seed
    double seconds = 0;         // that the first seed was given
  };
  // Those that ran, best first: who has more seeds is before who has fewer, then the typical time
  // decides, then the loss.
  std::vector<Place> ranking() const;

  double spent() const { return spent_; }
  // The search ended before its last part, for want of budget.
  bool cut_short() const { return cut_short_; }
  const char* part() const;

 private:
  enum class Part { Probe, Race, Seeds, Over };
  struct Option {
    std::optional<std::size_t> variant_of;
    bool active = false;
    std::vector<double> times = {};
    double loss = std::numeric_limits<double>::infinity();
    double seconds = 0;  // that the first seed was given
    double cost = 0;     // of its last run
    bool reached() const { return !times.empty() && times[0] < kNever; }
  };
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Active options that ran, best first, as far as the first seed tells.
  std::vector<std::size_t> by_first_seed() const;
  double time_of(const Option& option) const;
  // Active options, best first, as far as all seeds tell.
  std::vector<std::size_t> by_time() const;
  void after_probe();
  std::vector<Trial> race();
  std::vector<Trial> seeds();
  // What the option costs for so long, judged by its last run.
  double cost_of(const Option& option, double seconds) const;

  std::vector<Option> options_;
  Limits limits_;
  Part part_ = Part::Probe;
  double seconds_ = 0;         // of a run of this round
  std::vector<double> given_;  // by seed: the longest time of a run
  std::size_t round_ = 0;      // of Part::Seeds
  double spent_ = 0;
  bool cut_short_ = false;
  std::vector<Trial> asked_;
};

double mean_of(const std::vector<double>& values);
// The middle value, or the higher one of the two middle ones. Requires: not empty.
double upper_median(std::vector<double> values);
// What an option takes, over seeds: the geometric mean. A run that did not arrive (infinite) counts
// as kLate times the longest run with its seed, given[seed]. Infinite: no run arrived. The times
// of one option differ by factors between seeds, so a median of few is chance, and it does not see
// that every third run fails.
inline constexpr double kLate = 2;
double typical_time(const std::vector<double>& times, const std::vector<double>& given);

}  // namespace rubato::cli
