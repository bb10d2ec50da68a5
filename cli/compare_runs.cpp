// `rubato compare-runs`: run directories side by side, as a table, files, a picture and a page.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/file.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "cli/commands.hpp"
#include "cli/run_place.hpp"
#include "report/run_comparison.hpp"
#include "report/run_directory.hpp"
#include "report/runs_html.hpp"
#include "report/study/svg_chart.hpp"

namespace rubato::cli {
namespace {

// The last names of the directories, or, where two are equal, the paths as they are typed.
std::vector<std::string> names_of(const std::vector<std::string>& directories) {
  std::vector<std::string> names;
  for (const std::string& directory : directories)
    names.push_back(
        std::filesystem::absolute(directory + "/").lexically_normal().parent_path().filename());
  const std::set<std::string> different(names.begin(), names.end());
  return different.size() == names.size() ? names : directories;
}

// A group of bars for each run, a bar for each model, with its interval.
std::string picture(const report::SideBySide& all) {
  report::SvgChart chart;
  std::vector<std::string> models;
  for (const report::SideBySideRow& row : all.rows) {
    if (std::ranges::find(chart.labels, row.run) == chart.labels.end())
      chart.labels.push_back(row.run);
    if (std::ranges::find(models, row.sync) == models.end()) {
      models.push_back(row.sync);
      chart.series.push_back({row.title, report::model_style(row.sync), {}});
    }
  }
  double longest = 0;
  for (const report::SideBySideRow& row : all.rows)
    if (std::isfinite(row.median)) longest = std::max(longest, row.median);
  const bool minutes = !all.target.empty() && longest > 600;
  for (report::SvgSeries& series : chart.series) series.marks.resize(chart.labels.size());
  for (const report::SideBySideRow& row : all.rows) {
    const auto label = std::ranges::find(chart.labels, row.run) - chart.labels.begin();
    const auto model = std::ranges::find(models, row.sync) - models.begin();
    const double unit = minutes ? 60 : 1;
    report::SvgMark mark{row.median / unit, row.interval.low / unit, row.interval.high / unit, ""};
    if (row.reached < row.values.size())
      mark.note = fmt::format("{}/{}", row.reached, row.values.size());
    chart.series[static_cast<std::size_t>(model)].marks[static_cast<std::size_t>(label)] = mark;
  }
  chart.title = all.target.empty() ? "Final loss" : "Time to " + all.target;
  chart.y_title = fmt::format("{}median and its 95 % interval", all.target.empty() ? ""
                                                                : minutes          ? "min, "
                                                                                   : "s, ");
  return report::svg_figure({chart});
}

Result<void> compare_checked(const CompareRuns& options) {
  std::vector<std::string> directories;
  for (const std::string& run : options.runs) {
    RUBATO_ASSIGN(std::string directory, find_run(run));
    directories.push_back(std::move(directory));
  }
  const auto names = names_of(directories);
  std::vector<report::NamedComparison> runs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    RUBATO_ASSIGN(report::Comparison comparison, report::read_run_directory(directories[i]));
    runs.push_back({names[i], std::move(comparison)});
  }
  RUBATO_ASSIGN(const report::SideBySide all, report::side_by_side(runs));
  if (!options.csv.empty()) RUBATO_TRY(write_file(options.csv, report::side_by_side_csv(all)));
  if (!options.latex.empty())
    RUBATO_TRY(write_file(options.latex, report::side_by_side_latex(all)));
  if (!options.svg.empty()) RUBATO_TRY(write_file(options.svg, picture(all)));
  if (!options.html.empty()) RUBATO_TRY(write_file(options.html, report::runs_html(runs, all)));
  print_text("{}", report::side_by_side_table(all, text_columns(stdout)));
  for (const report::NamedComparison& run : runs)
    if (!run.comparison.partial.empty()) print_text("{}: {}\n", run.name, run.comparison.partial);
  return {};
}

}  // namespace

int compare_runs(const CompareRuns& options) {
  return exit_code(compare_checked(options));
}

}  // namespace rubato::cli
