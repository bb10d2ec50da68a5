#include "report/run_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "base/check.hpp"
#include "base/quote.hpp"
#include "base/text.hpp"
#include "report/table.hpp"

namespace rubato::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double value_of(const RunRecord& run, bool timed) {
  if (timed) return run.time_to_target_seconds.value_or(kInfinity);
  const bool diverged = !std::isfinite(run.final_loss) || run.found(finding::kDiverged);
  return run.measured() && !diverged ? run.final_loss : kInfinity;
}

std::vector<SideBySideRow> rows_of(const NamedComparison& named, bool timed) {
  std::vector<SideBySideRow> rows;
  for (const ModelSummary& summary : summarize(named.comparison)) {
    SideBySideRow row{named.name, summary.sync, summary.title, {}, 0, 0, {}, {}};
    for (const std::size_t i : summary.runs)
      row.values.push_back(value_of(named.comparison.runs[i], timed));
    row.reached = static_cast<std::size_t>(
        std::ranges::count_if(row.values, [](double v) { return std::isfinite(v); }));
    row.median = median(row.values);
    row.interval = bootstrap_median(row.values);
    rows.push_back(std::move(row));
  }
  return rows;
}

Difference difference(const SideBySideRow& row, const std::vector<SideBySideRow>& rows,
                      std::size_t reference) {
  const SideBySideRow& other = rows[reference];
  Difference d{reference, std::nullopt, mann_whitney(row.values, other.values)};
  if (std::isfinite(row.median) && std::isfinite(other.median) && other.median > 0)
    d.ratio = row.median / other.median;
  return d;
}

std::string value_text(const SideBySide& all, double value) {
  if (std::isfinite(value)) return all.target.empty() ? loss_text(value) : duration_text(value);
  return all.target.empty() ? "diverged" : "not reached";
}

std::string end_text(const SideBySide& all, double value) {
  return std::isfinite(value) ? value_text(all, value) : "never";
}

std::string chance_text(double chance) {
  return chance < 0.001 ? "< 0.001" : fmt::format("{:.3f}", chance);
}

std::string reference_text(const SideBySide& all, const Difference& d) {
  return fmt::format("{} {}", all.rows[d.reference].run, all.rows[d.reference].title);
}

using Cells = std::array<std::string, 8>;

Cells header(const SideBySide& all) {
  return {"Run",           "Model",   "Seeds", all.target.empty() ? "Final loss" : "Time to target",
          "95 % interval", "Against", "Ratio", "p"};
}

Cells cells(const SideBySide& all, const SideBySideRow& row) {
  Cells text{
      row.run,
      row.title,
      fmt::to_string(row.values.size()),
      value_text(all, row.median),
      fmt::format("{} to {}", end_text(all, row.interval.low), end_text(all, row.interval.high)),
      "-",
      "-",
      "-"};
  if (row.reached < row.values.size())
    text[2] = fmt::format("{}/{}", row.reached, row.values.size());
  if (!row.difference) return text;
  text[5] = reference_text(all, *row.difference);
  if (row.difference->ratio) text[6] = fmt::format("{:.2f}", *row.difference->ratio);
  text[7] = chance_text(row.difference->chance);
  return text;
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::to_string(value) : "";
}

}  // namespace

Result<SideBySide> side_by_side(const std::vector<NamedComparison>& runs) {
  RUBATO_CHECK(!runs.empty(), "nothing to set side by side");
  const NamedComparison& first = runs.front();
  SideBySide all{target_text(first.comparison), {}};
  for (const NamedComparison& named : runs) {
    const std::string target = target_text(named.comparison);
    if (named.comparison.task != first.comparison.task)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: another task than {}; compare classification with "
                              "classification, and regression with regression",
                              named.name, first.name));
    if (target != all.target)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: target {}, but {} has {}; run one of them again with "
                              "--target-loss",
                              named.name, target.empty() ? "none" : target, first.name,
                              all.target.empty() ? "none" : all.target));
    for (SideBySideRow& row : rows_of(named, !target.empty())) {
      if (!all.rows.empty()) {
        const auto same = std::ranges::find_if(all.rows, [&](const SideBySideRow& other) {
          return other.run == first.name && other.sync == row.sync;
        });
        const bool has = same != all.rows.end() && row.run != first.name;
        row.difference =
            difference(row, all.rows, has ? static_cast<std::size_t>(same - all.rows.begin()) : 0);
      }
      all.rows.push_back(std::move(row));
    }
  }
  return all;
}

std::vector<std::vector<std::string>> side_by_side_cells(const SideBySide& all) {
  const auto line = [](const Cells& text) {
    return std::vector<std::string>(text.begin(), text.end());
  };
  std::vector<std::vector<std::string>> lines{line(header(all))};
  for (const SideBySideRow& row : all.rows) lines.push_back(line(cells(all, row)));
  return lines;
}

std::string side_by_side_table(const SideBySide& all, std::size_t width) {
  std::vector<std::vector<std::string>> columns(header(all).size());
  for (const auto& line : side_by_side_cells(all))
    for (std::size_t i = 0; i < line.size(); ++i) columns[i].push_back(line[i]);
  constexpr std::string_view kLegend =
      "Medians over the seeds. Interval: bootstrap of the median, 10,000 samples.\n"
      "Ratio: the row's median / that of the row it is tested against.\n"
      "p: exact test of Mann and Whitney, two-sided, not corrected for the number of rows.\n";
  return fmt::format("{}\n\n{}\n\n{}", all.target.empty() ? "Final loss" : "Time to " + all.target,
                     aligned(columns, width, 2), wrapped(kLegend, width));
}

std::string side_by_side_csv(const SideBySide& all) {
  const char* unit = all.target.empty() ? "final_loss" : "time_to_target_s";
  std::string csv = fmt::format(
      "run,sync,seeds,reached,{0},{0}_low,{0}_high,against_run,against_sync,ratio,p\n", unit);
  for (const SideBySideRow& row : all.rows) {
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},", csv_field(row.run),
                   csv_field(row.sync), row.values.size(), row.reached, number(row.median),
                   number(row.interval.low), number(row.interval.high));
    if (const auto& d = row.difference) {
      const SideBySideRow& other = all.rows[d->reference];
      fmt::format_to(std::back_inserter(csv), "{},{},{},{}", csv_field(other.run),
                     csv_field(other.sync), d->ratio ? fmt::to_string(*d->ratio) : "", d->chance);
    } else {
      csv += ",,,";
    }
    csv += '\n';
  }
  return csv;
}

std::string side_by_side_latex(const SideBySide& all) {
  const auto line = [](const Cells& text) {
    std::string joined;
    for (const std::string& cell : text) joined += (joined.empty() ? "" : " & ") + latex_text(cell);
    return joined + " \\\\\n";
  };
  std::string text = "\\begin{tabular}{llrrrlrr}\n\\toprule\n" + line(header(all)) + "\\midrule\n";
  for (const SideBySideRow& row : all.rows) text += line(cells(all, row));
  return text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace rubato::report
