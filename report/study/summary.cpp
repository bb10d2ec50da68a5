#include "report/study/summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "sync/factory.hpp"

namespace rubato::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double or_infinity(double value) {
  return std::isnan(value) ? kInfinity : value;
}

// Requires: sorted, not empty; 0 <= part <= 1.
double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const double rest = place - static_cast<double>(below);
  if (rest == 0 || sorted[below] == sorted[below + 1]) return sorted[below];
  return sorted[below] + rest * (sorted[below + 1] - sorted[below]);
}

VariantSummary summarize_variant(const Variant& variant, const std::vector<CellResult>& runs) {
  const auto spread_of = [&](auto value) {
    std::vector<double> values;
    for (const CellResult& run : runs) values.push_back(static_cast<double>(value(run)));
    return spread(std::move(values));
  };
  const auto mean_of = [&](double CellResult::*value) {
    double sum = 0;
    for (const CellResult& run : runs) sum += run.*value;
    return sum / static_cast<double>(runs.size());
  };
  VariantSummary s;
  s.point = variant.point;
  s.contender = variant.contender;
  s.trial = variant.trial;
  s.runs = runs.size();
  for (const CellResult& run : runs) {
    s.reached += run.time_to_target ? 1 : 0;
    s.diverged += run.diverged ? 1 : 0;
  }
  s.time = spread_of([](const CellResult& r) { return r.time_to_target.value_or(kInfinity); });
  s.length = spread_of([](const CellResult& r) { return r.seconds; });
  s.steps = spread_of([](const CellResult& r) { return r.steps; });
  s.commits = spread_of([](const CellResult& r) { return r.commits; });
  s.bytes = spread_of([](const CellResult& r) { return r.bytes_up + r.bytes_down; });
  s.bytes_per_second = spread_of([](const CellResult& r) {
    return r.seconds > 0 ? static_cast<double>(r.bytes_up + r.bytes_down) / r.seconds : 0;
  });
  s.final_loss = spread_of([](const CellResult& r) { return r.final_loss; });
  s.final_accuracy = spread_of([](const CellResult& r) { return r.final_accuracy; });
  s.compute_share = mean_of(&CellResult::compute_share);
  s.wait_share = mean_of(&CellResult::wait_share);
  s.communicate_share = mean_of(&CellResult::communicate_share);
  s.heterogeneity = spread_of([](const CellResult& r) { return r.heterogeneity; }).median;
  s.workers = spread_of([](const CellResult& r) { return r.workers; }).median;

  std::vector<const CellResult*> order;
  for (const CellResult& run : runs) order.push_back(&run);
  std::ranges::sort(order, {}, [](const CellResult* run) {
    return std::tuple(run->time_to_target.value_or(kInfinity), or_infinity(run->final_loss),
                      run->seed);
  });
  s.curve = order[(order.size() - 1) / 2]->curve;
  return s;
}

// Less is better: what a search compares.
auto rank(const VariantSummary& s) {
  const bool arrived = std::isfinite(s.time.median);
  return std::tuple(-static_cast<double>(s.runs), s.time.median, arrived ? 0 : s.final_loss.median);
}

// Requires: summaries of one contender at one point, not empty.
VariantSummary best_of(const std::vector<VariantSummary>& trials, bool searched) {
  VariantSummary best = *std::ranges::min_element(trials, {}, rank);
  for (const VariantSummary& s : trials)
    if (searched)
      best.trials.push_back({s.trial, s.runs, s.reached, s.time.median, s.final_loss.median});
  return best;
}

}  // namespace

Spread spread(std::vector<double> values) {
  RUBATO_CHECK(!values.empty(), "a spread needs values");
  std::ranges::transform(values, values.begin(), or_infinity);
  std::ranges::sort(values);
  return {quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), values.front(),
          values.back()};
}

std::size_t missing_runs(const StudyResults& results) {
  std::size_t missing = 0;
  for (const auto& seeds : results.cells)
    for (const auto& cell : seeds) missing += cell ? 0 : 1;
  return missing;
}

std::optional<std::size_t> baseline(const Study& study) {
  const auto base = std::ranges::find(study.contenders, sync::baseline_model(), &Contender::sync);
  if (base == study.contenders.end()) return std::nullopt;
  return static_cast<std::size_t>(base - study.contenders.begin());
}

std::vector<VariantSummary> summarize(const StudyResults& results) {
  std::vector<VariantSummary> summaries;
  const StudyPlan& plan = results.plan;
  std::vector<VariantSummary> trials;
  for (std::size_t i = 0; i < plan.variants.size(); ++i) {
    const Variant& variant = plan.variants[i];
    std::vector<CellResult> runs;
    for (const auto& cell : results.cells[i])
      if (cell) runs.push_back(*cell);
    if (!runs.empty()) trials.push_back(summarize_variant(variant, runs));
    const bool last = i + 1 == plan.variants.size() ||
                      plan.variants[i + 1].contender != variant.contender ||
                      plan.variants[i + 1].point != variant.point;
    if (!last || trials.empty()) continue;
    const bool searched = !plan.study.contenders[variant.contender].search.empty();
    summaries.push_back(best_of(trials, searched));
    trials.clear();
  }
  for (VariantSummary& summary : summaries) {
    if (results.linear_bounds.empty()) break;
    const auto& bound = results.linear_bounds[summary.point];
    if (bound && std::isfinite(summary.time.median) && summary.time.median > 0)
      summary.bound_share = *bound / summary.time.median;
  }
  const auto base = baseline(plan.study);
  if (!base) return summaries;
  for (VariantSummary& summary : summaries) {
    const auto rival = std::ranges::find_if(summaries, [&](const VariantSummary& other) {
      return other.point == summary.point && other.contender == *base;
    });
    if (rival == summaries.end() || rival->contender == summary.contender) continue;
    const double theirs = rival->time.median;
    if (std::isfinite(theirs) && theirs > 0 && std::isfinite(summary.time.median))
      summary.saving = (theirs - summary.time.median) / theirs;
  }
  return summaries;
}

}  // namespace rubato::report
