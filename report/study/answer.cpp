#include "report/study/answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/check.hpp"
#include "base/text.hpp"
#include "report/comparison.hpp"
#include "report/study/study_files.hpp"

namespace rubato::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What contenders are compared by.
struct Yardstick {
  const char* one_leads;
  const char* several_lead;
  const char* noun;  // of the value; empty: a ratio of two values says nothing
  double sign;       // -1: more is better
  Spread VariantSummary::*value;
};
constexpr Yardstick kTime{"is first to the target", "are each first to the target", "time", 1,
                          &VariantSummary::time};
constexpr Yardstick kLoss{"ends with the lowest loss", "each end with the lowest loss", "", 1,
                          &VariantSummary::final_loss};
constexpr Yardstick kSteps{"makes the most steps", "each make the most steps", "number of steps",
                           -1, &VariantSummary::steps};

Yardstick yardstick(const StudyResults& results, const std::vector<VariantSummary>& summaries) {
  if (has_target(results.plan)) return kTime;
  const bool measured =
      std::ranges::any_of(summaries, [](const VariantSummary& s) { return !s.curve.empty(); });
  return measured ? kLoss : kSteps;
}

// "1.1", "12", "0.85".
std::string times(double ratio) {
  return ratio < 1 ? fmt::format("{:.2f}", ratio)
                   : fmt::format("{:.{}f}", ratio, ratio < 10 ? 1 : 0);
}

// By contender; null: nothing has finished.
using Row = std::vector<const VariantSummary*>;

class Answer {
 public:
  Answer(const StudyResults& results, const std::vector<VariantSummary>& summaries)
      : plan_(results.plan), by_(yardstick(results, summaries)) {
    for (const VariantSummary& s : summaries) {
      Row& row = rows_[s.point];
      row.resize(plan_.study.contenders.size());
      row[s.contender] = &s;
    }
    // Where somebody has yet to run, nobody leads; of a study that has just begun this is all there
    // is.
    const auto complete = [](const auto& entry) {
      return std::ranges::find(entry.second, nullptr) == entry.second.end();
    };
    if (std::ranges::any_of(rows_, complete))
      std::erase_if(rows_, [&](const auto& entry) { return !complete(entry); });
    // Where cases differ, some may have nothing to reach.
    if (has_target(plan_))
      std::erase_if(rows_, [&](const auto& entry) {
        return target_text(first_variant(plan_, entry.first).config).empty();
      });
  }

  std::string text() {
    count_leads();
    std::string sentence = lead_text();
    if (leaders_.empty()) return sentence + ".";
    if (without_ > 0) sentence += fmt::format("; {} nobody reaches the target", places(without_));
    const std::string change = x_is_numeric() ? change_along_x() : against_baseline();
    return sentence + (change.empty() ? "" : "; " + change) + ".";
  }

 private:
  // "at 5 of 6 values of heterogeneity", "in all 3 cases", "at 1 of 12 points of the grid".
  std::string places(std::size_t count) const {
    std::string what = "points of the grid";
    const auto& axes = plan_.study.axes;
    const auto wide = [](const Axis& axis) { return axis.choices.size() > 1; };
    if (std::ranges::count_if(axes, wide) == 1) {
      const std::string& only = std::ranges::find_if(axes, wide)->name;
      what = only == "case" ? "cases" : "values of " + only;
    }
    std::string how_many = fmt::format("{} of {}", count, rows_.size());
    if (count == rows_.size()) how_many = count == 2 ? "both" : fmt::format("all {}", count);
    return fmt::format("{} {} {}", what == "cases" ? "in" : "at", how_many, what);
  }
  const std::string& name(std::size_t contender) const {
    return plan_.study.contenders[contender].name;
  }
  double value(const VariantSummary* s) const { return s ? (s->*by_.value).median : kInfinity; }
  double rank(const VariantSummary* s) const { return s ? by_.sign * value(s) : kInfinity; }

  // Whether the range over the seeds of `s` meets that of `best`.
  bool leads(const VariantSummary* s, const VariantSummary& best) const {
    if (!s || !std::isfinite(value(s))) return false;
    const Spread& own = s->*by_.value;
    const Spread& other = best.*by_.value;
    return by_.sign > 0 ? own.min <= other.max : own.max >= other.min;
  }

  void count_leads() {
    std::vector<std::size_t> leads_of(plan_.study.contenders.size());
    for (const auto& [point, row] : rows_) {
      const VariantSummary* best =
          *std::ranges::min_element(row, {}, [&](const VariantSummary* s) { return rank(s); });
      if (!best || !std::isfinite(value(best))) {
        ++without_;
        continue;
      }
      for (std::size_t c = 0; c < row.size(); ++c)
        if (leads(row[c], *best)) ++leads_of[c];
    }
    most_ = std::ranges::max(leads_of);
    for (std::size_t c = 0; most_ > 0 && c < leads_of.size(); ++c)
      if (leads_of[c] == most_) leaders_.push_back(c);
  }

  std::string lead_text() const {
    if (leaders_.empty())
      return rows_.size() == 1 ? "No contender reaches the target"
                               : "No contender reaches the target anywhere";
    std::vector<std::string> names;
    for (const std::size_t c : leaders_) names.push_back(name(c));
    std::string who = names.front();
    if (names.size() > 4) {
      who = fmt::format("{} of {} contenders", names.size(), plan_.study.contenders.size());
    } else if (names.size() > 1) {
      const std::string last = names.back();
      names.pop_back();
      who = fmt::format("{} and {}", fmt::join(names, ", "), last);
    }
    const std::string what =
        fmt::format("{} {}", who, leaders_.size() == 1 ? by_.one_leads : by_.several_lead);
    return rows_.size() == 1 ? what : what + " " + places(most_);
  }

  bool x_is_numeric() const {
    if (plan_.study.axes.empty()) return false;
    const auto& choices = plan_.study.axes[plan_.study.x].choices;
    return choices.size() > 1 && std::ranges::all_of(choices, [](const Choice& choice) {
             return choice.number.has_value();
           });
  }

  // The contender's value where x is largest, divided by that where x is smallest: the median over
  // the choices of the other axes. Infinite if it does not arrive there; none if it never did.
  std::optional<double> growth(std::size_t contender, std::size_t least, std::size_t most) const {
    std::vector<double> ratios;
    for (const auto& [point, row] : rows_) {
      Point other = plan_.points[point];
      if (other.choices[plan_.study.x] != least || !std::isfinite(value(row[contender]))) continue;
      other.choices[plan_.study.x] = most;
      const auto at = std::ranges::find(plan_.points, other.choices, &Point::choices);
      const auto there = rows_.find(static_cast<std::size_t>(at - plan_.points.begin()));
      if (there == rows_.end() || !there->second[contender]) continue;
      ratios.push_back(value(there->second[contender]) / value(row[contender]));
    }
    if (ratios.empty()) return std::nullopt;
    return median(std::move(ratios));
  }

  std::string change_along_x() const {
    if (*by_.noun == '\0') return {};
    const Axis& axis = plan_.study.axes[plan_.study.x];
    const auto [low, high] = std::ranges::minmax_element(
        axis.choices, {}, [](const Choice& choice) { return *choice.number; });
    const auto least = static_cast<std::size_t>(low - axis.choices.begin());
    const auto most = static_cast<std::size_t>(high - axis.choices.begin());
    const std::size_t leader = leaders_.front();
    const auto own = growth(leader, least, most);
    if (!own || std::isinf(*own)) return {};
    std::optional<std::size_t> rival;
    double theirs = 0;
    for (std::size_t c = 0; c < plan_.study.contenders.size(); ++c) {
      const auto ratio = growth(c, least, most);
      if (c == leader || !ratio || *ratio <= theirs) continue;
      rival = c;
      theirs = *ratio;
    }
    const std::string whose = leaders_.size() == 1
                                  ? fmt::format("its {}", by_.noun)
                                  : fmt::format("the {} of {}", by_.noun, name(leader));
    const std::string text = fmt::format("at {} = {} {} is {} times that at {}", axis.name,
                                         high->label, whose, times(*own), low->label);
    if (!rival || theirs <= *own) return text;
    if (std::isinf(theirs)) return fmt::format("{}, and {} does not arrive", text, name(*rival));
    return fmt::format("{}, and that of {} {} times, the most", text, name(*rival), times(theirs));
  }

  // "BSP takes 1.2 to 3.4 times as long".
  std::string against_baseline() const {
    const auto base = baseline(plan_.study);
    const std::size_t leader = leaders_.front();
    if (by_.value != &VariantSummary::time || !base || *base == leader) return {};
    double least = kInfinity;
    double most = 0;
    for (const auto& [point, row] : rows_) {
      const double ratio = value(row[*base]) / value(row[leader]);
      if (!std::isfinite(ratio)) continue;
      least = std::min(least, ratio);
      most = std::max(most, ratio);
    }
    if (most == 0) return {};
    const std::string low = times(least), high = times(most);
    const std::string range = low == high ? low : fmt::format("{} to {}", low, high);
    return fmt::format("{} takes {} times as long{}", name(*base), range,
                       leaders_.size() == 1 ? "" : " as " + name(leader));
  }

  const StudyPlan& plan_;
  Yardstick by_;
  std::map<std::size_t, Row> rows_;  // by point
  std::vector<std::size_t> leaders_;
  std::size_t most_ = 0;     // points at which each of them leads
  std::size_t without_ = 0;  // points at which nobody arrives
};

}  // namespace

std::string study_answer(const StudyResults& results,
                         const std::vector<VariantSummary>& summaries) {
  RUBATO_CHECK(!summaries.empty(), "an answer needs a run");
  return Answer(results, summaries).text();
}

}  // namespace rubato::report
