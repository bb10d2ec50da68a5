#include "cli/whatif/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "report/comparison.hpp"
#include "report/finding_codes.hpp"
#include "report/table.hpp"

namespace rubato::cli::whatif {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Differences below it are not told as a reason.
constexpr double kTold = 0.02;

template <class Figure>
double median_of(const std::vector<RunRecord>& runs, const Figure& figure) {
  std::vector<double> values;
  for (const RunRecord& run : runs) values.push_back(figure(run));
  return report::median(values);
}

double lives_seconds(const RunRecord& run) {
  double seconds = 0;
  for (const WorkerRecord& worker : run.workers)
    seconds += worker.left_seconds.value_or(run.seconds) - worker.joined_seconds;
  return seconds;
}

double ratio_of(double part, double whole) {
  return whole > 0 ? part / whole : kInfinity;
}

// Of all workers; empty where some device does not say what it draws.
std::optional<double> joules_of(const RunRecord& run) {
  double sum = 0;
  for (const WorkerRecord& worker : run.workers) {
    if (!worker.joules) return std::nullopt;
    sum += *worker.joules;
  }
  return sum;
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

// The share of the workers' time that changed most, in words; empty: none changed by much.
std::string share_reason(const Forecast& base, const Forecast& change) {
  struct Share {
    const char* words;
    double before, after;
  };
  const std::array shares{
      Share{"waiting for others takes", base.wait_share, change.wait_share},
      Share{"communicating takes", base.communicate_share, change.communicate_share},
  };
  const Share* most = nullptr;
  for (const Share& share : shares)
    if (std::abs(share.after - share.before) >= kTold &&
        (!most || std::abs(share.after - share.before) > std::abs(most->after - most->before)))
      most = &share;
  if (!most) return {};
  return fmt::format("{} {} of the workers' time, not {}", most->words, percent(most->after),
                     percent(most->before));
}

std::string more_or_less(double ratio, std::string_view what) {
  return fmt::format("{} {} {}", percent(std::abs(ratio - 1)), ratio > 1 ? "more" : "fewer", what);
}

std::string reason_of(const Forecast& base, const Forecast& change) {
  std::string text;
  const auto add = [&text](const std::string& words) {
    if (!words.empty()) text += (text.empty() ? "" : "; ") + words;
  };
  const double speed = ratio_of(change.steps_per_second, base.steps_per_second);
  if (std::abs(speed - 1) >= kTold) add(more_or_less(speed, "steps a second"));
  add(share_reason(base, change));
  const double needed = ratio_of(change.steps, base.steps);
  if (std::isfinite(change.time) && std::isfinite(base.time) && std::abs(needed - 1) >= kTold)
    add(more_or_less(needed, "steps to the target"));
  if (change.diverged) add("training diverges");
  return text.empty() ? "no figure changes by 2 %" : text;
}

std::string time_cell(const Forecast& row) {
  if (!std::isfinite(row.time)) return "not reached";
  return row.reached == row.runs
             ? duration_text(row.time)
             : fmt::format("{} ({}/{})", duration_text(row.time), row.reached, row.runs);
}

// 0.52 s; 1.3 ms.
std::string short_text(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

}  // namespace

Forecast forecast(const std::string& name, const std::vector<RunRecord>& runs) {
  RUBATO_CHECK(!runs.empty(), "a variant has runs");
  Forecast f;
  f.name = name;
  f.runs = runs.size();
  for (const RunRecord& run : runs) {
    f.times.push_back(run.time_to_target_seconds.value_or(kInfinity));
    f.reached += run.time_to_target_seconds.has_value() ? 1 : 0;
    f.diverged = f.diverged || run.found(report::finding::kDiverged);
    const auto share = 1 / static_cast<double>(runs.size());
    f.compute_share += share * run.compute_share;
    f.wait_share += share * run.wait_share;
    f.communicate_share += share * run.communicate_share;
  }
  f.time = report::median(f.times);
  f.interval = report::bootstrap_median(f.times);
  const auto steps = [](const RunRecord& run) { return static_cast<double>(run.steps); };
  f.step_seconds = median_of(
      runs, [&](const RunRecord& run) { return ratio_of(lives_seconds(run), steps(run)); });
  f.commit_seconds = median_of(runs, [](const RunRecord& run) {
    return ratio_of(lives_seconds(run), static_cast<double>(run.commits));
  });
  f.steps_per_second = median_of(
      runs, [&](const RunRecord& run) { return run.seconds > 0 ? steps(run) / run.seconds : 0; });
  f.steps = median_of(runs, steps);
  f.commits =
      median_of(runs, [](const RunRecord& run) { return static_cast<double>(run.commits); });
  f.bytes = median_of(runs, [](const RunRecord& run) {
    return static_cast<double>(run.bytes_up + run.bytes_down);
  });
  if (std::ranges::all_of(runs, [](const RunRecord& run) { return joules_of(run).has_value(); }))
    f.joules = median_of(runs, [](const RunRecord& run) { return *joules_of(run); });
  return f;
}

Effect effect(const Forecast& base, const Forecast& change) {
  Effect e;
  if (!std::isfinite(change.time))
    e.ratio = std::isfinite(base.time) ? kInfinity : 1;
  else
    e.ratio = std::isfinite(base.time) && base.time > 0 ? change.time / base.time : 0;
  e.sure = change.interval.high < base.interval.low || change.interval.low > base.interval.high;
  e.nothing = change.times == base.times && change.steps == base.steps &&
              change.bytes == base.bytes && change.commit_seconds == base.commit_seconds &&
              change.step_seconds == base.step_seconds;
  e.reason = e.nothing ? "changes nothing here" : reason_of(base, change);
  return e;
}

std::vector<std::size_t> ranking(const std::vector<Effect>& effects) {
  std::vector<std::size_t> order(effects.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return effects[i].ratio; });
  return order;
}

std::string effect_text(const Effect& effect) {
  if (effect.nothing) return "the same";
  if (!std::isfinite(effect.ratio)) return "misses the target";
  if (effect.ratio == 0) return "reaches the target, which is missed now";
  return fmt::format("{:.1f} % {} time", 100 * std::abs(effect.ratio - 1),
                     effect.ratio > 1 ? "more" : "less");
}

std::vector<std::vector<std::string>> forecast_columns(const Forecast& base,
                                                       const std::vector<Forecast>& changes,
                                                       bool targeted) {
  std::vector<std::vector<std::string>> columns{{"Change"}};
  const auto column = [&](const char* header, const auto& cell) {
    std::vector<std::string> cells{header, cell(base)};
    for (const Forecast& change : changes) cells.push_back(cell(change));
    columns.push_back(std::move(cells));
  };
  columns[0].push_back(base.name);
  for (const Forecast& change : changes) columns[0].push_back(change.name);
  if (targeted) {
    column("To target", time_cell);
    column("95 % interval", [](const Forecast& f) {
      return fmt::format("{} to {}", duration_or(f.interval.low, "never"),
                         duration_or(f.interval.high, "never"));
    });
  }
  column("A step", [](const Forecast& f) { return short_text(f.step_seconds); });
  column("A commit", [](const Forecast& f) { return short_text(f.commit_seconds); });
  column("Wait", [](const Forecast& f) { return percent_text(f.wait_share); });
  column("Comm.", [](const Forecast& f) { return percent_text(f.communicate_share); });
  column("Bytes", [](const Forecast& f) { return bytes_text(f.bytes); });
  if (base.joules ||
      std::ranges::any_of(changes, [](const Forecast& f) { return f.joules.has_value(); }))
    column("Energy", [](const Forecast& f) { return joules_text(f.joules); });
  return columns;
}

std::string forecast_table(const Forecast& base, const std::vector<Forecast>& changes,
                           bool targeted, std::size_t width) {
  return report::aligned(forecast_columns(base, changes, targeted), width);
}

report::TimesRow times_row(const Forecast& f, report::TimesRow::Kind kind) {
  return {.name = f.name,
          .kind = kind,
          .time = f.time,
          .low = f.interval.low,
          .high = f.interval.high,
          .reached = f.reached,
          .runs = f.runs};
}

report::TimesPage forecast_page(const Forecast& base, const std::vector<Forecast>& changes,
                                const std::vector<Effect>& effects, bool targeted) {
  using Kind = report::TimesRow::Kind;
  report::TimesPage page;
  page.title = "What if";
  page.targeted = targeted;
  // The base is the first row, then what helps most.
  std::vector<std::size_t> order(changes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (targeted) order = ranking(effects);
  std::vector<Forecast> sorted;
  for (const std::size_t i : order) sorted.push_back(changes[i]);
  const auto columns = forecast_columns(base, sorted, targeted);
  for (const auto& column : columns) page.header.push_back(column.front());
  if (targeted) page.header.emplace_back("Against it");
  page.header.emplace_back("Why");
  for (std::size_t row = 0; row <= sorted.size(); ++row) {
    page.rows.push_back(row == 0 ? times_row(base, Kind::Reference)
                                 : times_row(sorted[row - 1], Kind::Change));
    auto& cells = page.rows.back().cells;
    for (std::size_t i = 1; i < columns.size(); ++i) cells.push_back(columns[i][row + 1]);
    const Effect* e = row == 0 ? nullptr : &effects[order[row - 1]];
    if (targeted)
      cells.push_back(e ? effect_text(*e) + (e->sure || e->nothing ? "" : " (maybe by chance)")
                        : "");
    cells.push_back(e ? e->reason : "");
  }
  const Effect* best = targeted && !order.empty() ? &effects[order.front()] : nullptr;
  if (best && !best->nothing && best->ratio < 1)
    page.headline = fmt::format("{} helps most: {}{}.", sorted.front().name, effect_text(*best),
                                best->sure ? "" : ", maybe by chance");
  else if (targeted)
    page.headline = "No change helps.";
  else
    page.headline = "What the changes do; there is no target to reach.";
  page.notes = {
      "All figures but shares are medians over the seeds. The interval is that of the median, by "
      "bootstrap. \"Maybe by chance\": the intervals of both times meet.",
      "A step and a commit: seconds of one worker, from one to the next, waiting and communicating "
      "included. Bytes and energy count until the run ends."};
  return page;
}

std::string ranking_text(const std::vector<Forecast>& changes, const std::vector<Effect>& effects,
                         std::size_t width) {
  std::string text;
  std::size_t place = 0;
  std::size_t rest = 0;
  for (const std::size_t i : ranking(effects)) {
    const Effect& e = effects[i];
    if (e.nothing || e.ratio >= 1) {
      ++rest;
      continue;
    }
    text += wrapped(fmt::format("{}. {}: {}{}; {}.", ++place, changes[i].name, effect_text(e),
                                e.sure ? "" : " (maybe by chance)", e.reason),
                    width, 3) +
            "\n";
  }
  if (place == 0) text += "No single change helps.\n";
  if (rest > 0 && place > 0)
    text += fmt::format("{} no help.\n", rest == 1 ? std::string("1 change is of")
                                                   : fmt::format("{} changes are of", rest));
  return text;
}

std::string joules_text(const std::optional<double>& joules) {
  if (!joules) return "-";
  return *joules < 1e4 ? fmt::format("{:.3g} J", *joules) : fmt::format("{:.3g} kJ", *joules / 1e3);
}

report::Json forecast_json(const Forecast& f) {
  using report::number_json;
  report::Json times = report::Json::array();
  for (const double time : f.times) times.push_back(number_json(time));
  return {{"name", f.name},
          {"runs", f.runs},
          {"reached", f.reached},
          {"time_to_target_s", number_json(f.time)},
          {"interval_s", {number_json(f.interval.low), number_json(f.interval.high)}},
          {"times_s", std::move(times)},
          {"step_s", number_json(f.step_seconds)},
          {"commit_s", number_json(f.commit_seconds)},
          {"steps_per_s", number_json(f.steps_per_second)},
          {"steps", f.steps},
          {"commits", f.commits},
          {"bytes", f.bytes},
          {"joules", report::optional_json(f.joules)},
          {"compute_share", f.compute_share},
          {"wait_share", f.wait_share},
          {"communicate_share", f.communicate_share},
          {"diverged", f.diverged}};
}

report::Json effect_json(const Effect& e) {
  return {{"ratio", report::number_json(e.ratio)},
          {"sure", e.sure},
          {"nothing", e.nothing},
          {"reason", e.reason}};
}

}  // namespace rubato::cli::whatif
