#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string_view>

#include "base/check.hpp"
#include "cli/text.hpp"

namespace rubato::cli {
namespace {

struct Column {
  std::string header;
  std::function<std::string(const ModelSummary&)> cell;
};

std::string time_cell(const ModelSummary& summary) {
  if (!summary.time_to_target) return "not reached";
  std::string time = duration_text(*summary.time_to_target);
  if (summary.reached == summary.runs.size()) return time;
  return fmt::format("{} ({}/{})", time, summary.reached, summary.runs.size());
}

std::vector<Column> columns(bool has_target, bool has_loss, const Figure& figure) {
  using S = ModelSummary;
  std::vector<Column> columns{{"Model", [](const S& s) { return s.title; }}};
  if (has_target) {
    columns.push_back({"Time to target", time_cell});
    columns.push_back(
        {"Saving", [](const S& s) { return s.saving ? percent_text(*s.saving) : "-"; }});
  } else {
    columns.push_back({"Time", [](const S& s) { return duration_text(s.seconds); }});
  }
  const std::vector<Column> figures{
      {"Compute", [](const S& s) { return percent_text(s.compute_share); }},
      {"Wait", [](const S& s) { return percent_text(s.wait_share); }},
      {"Comm.", [](const S& s) { return percent_text(s.communicate_share); }},
      {"Steps", [](const S& s) { return count_text(s.steps); }},
      {"Commits", [](const S& s) { return count_text(s.commits); }},
      {"Up", [](const S& s) { return bytes_text(s.bytes_up); }},
      {"Down", [](const S& s) { return bytes_text(s.bytes_down); }},
  };
  columns.insert(columns.end(), figures.begin(), figures.end());
  if (!has_loss) return columns;
  columns.push_back(
      {"Loss", [](const S& s) { return s.measured ? loss_text(s.final_loss) : "-"; }});
  columns.push_back({figure.title, [figure](const S& s) {
                       return s.measured && std::isfinite(s.final_accuracy)
                                  ? figure_text(figure, s.final_accuracy)
                                  : "-";
                     }});
  return columns;
}

// A worker that came back has a record for each of its lives.
std::size_t worker_count(const RunRecord& run) {
  std::set<std::string_view> names;
  for (const WorkerRecord& worker : run.workers) names.insert(worker.id);
  return names.size();
}

// Workers that measured the model on samples of their own, those of the first run, worst first.
std::vector<WorkerRecord> measured_workers(const Comparison& comparison) {
  auto workers = comparison.runs.front().workers;
  std::erase_if(workers, [](const WorkerRecord& w) { return w.held_out_samples == 0; });
  // One whose targets do not vary has no R^2, and comes last.
  std::ranges::stable_sort(workers, {}, [](const WorkerRecord& w) {
    return std::isnan(w.held_out_accuracy) ? std::numeric_limits<double>::infinity()
                                           : w.held_out_accuracy;
  });
  return workers;
}

std::string worst_worker(const Comparison& comparison) {
  if (comparison.runs.size() != 1) return {};
  const auto workers = measured_workers(comparison);
  if (workers.size() < 2) return {};
  const Figure figure = figure_of(comparison.task);
  const auto figures = [&](const WorkerRecord& w) {
    return fmt::format("{} (loss {}, {} {}, {} samples)", w.id, loss_text(w.held_out_loss),
                       figure.word, figure_text(figure, w.held_out_accuracy),
                       count_text(static_cast<double>(w.held_out_samples)));
  };
  return fmt::format("On their own held-out samples: worst {}, best {}.\n",
                     figures(workers.front()), figures(workers.back()));
}

std::string caption(const Comparison& comparison, const std::vector<ModelSummary>& summaries) {
  const std::string target = target_text(comparison);
  const auto seeds = std::ranges::max_element(summaries, {}, [](const auto& s) {
                       return s.runs.size();
                     })->runs.size();
  return fmt::format("{}: {} workers, H {:.2f}{}{}, {} seed{}, {} time", comparison.cluster,
                     worker_count(comparison.runs.front()), summaries.front().heterogeneity,
                     target.empty() ? "" : ", target ", target, seeds, seeds == 1 ? "" : "s",
                     comparison.virtual_time ? "virtual" : "real");
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& columns) {
  std::vector<std::string> lines(columns.front().size());
  for (const auto& cells : columns) {
    const auto width = std::ranges::max(cells, {}, &std::string::size).size();
    for (std::size_t i = 0; i < cells.size(); ++i) {
      lines[i] += lines[i].empty() ? fmt::format("{:<{}}", cells[i], width)
                                   : fmt::format("  {:>{}}", cells[i], width);
    }
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string comparison_table(const Comparison& comparison,
                             const std::vector<ModelSummary>& summaries) {
  RUBATO_CHECK(!summaries.empty(), "a table needs a row");
  const bool has_target = comparison.target_loss || comparison.target_accuracy;
  const bool has_loss = std::ranges::any_of(summaries, &ModelSummary::measured);
  std::vector<std::vector<std::string>> cells;
  for (const Column& column : columns(has_target, has_loss, figure_of(comparison.task))) {
    cells.push_back({column.header});
    for (const ModelSummary& summary : summaries) cells.back().push_back(column.cell(summary));
  }
  return fmt::format("{}\n\n{}\n\n{}\n{}{}", caption(comparison, summaries), aligned(cells),
                     headline(comparison, summaries), worst_worker(comparison),
                     comparison.note.empty() ? "" : comparison.note + "\n") +
         (comparison.partial.empty() ? "" : comparison.partial + "\n");
}

}  // namespace rubato::cli
