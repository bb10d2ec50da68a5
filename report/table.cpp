#include "report/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ranges>
#include <set>
#include <string_view>

#include "base/check.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato::report {
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

std::string loss_cell(const ModelSummary& summary) {
  if (!summary.measured) return "-";
  const bool diverged = summary.spoiling && summary.spoiling->code == finding::kDiverged;
  return diverged ? "diverged" : loss_text(summary.final_loss);
}

std::vector<Column> columns(bool has_target, bool has_bound, bool has_dropped, bool has_loss,
                            const Figure& figure) {
  using S = ModelSummary;
  std::vector<Column> columns{{"Model", [](const S& s) { return s.title; }}};
  if (has_target) {
    columns.push_back({"Time to target", time_cell});
    columns.push_back(
        {"Saving", [](const S& s) { return s.saving ? percent_text(*s.saving) : "-"; }});
    if (has_bound)
      columns.push_back({"Of bound", [](const S& s) {
                           return s.bound_share ? percent_text(*s.bound_share) : "-";
                         }});
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
  if (has_dropped)
    columns.push_back({"Dropped", [](const S& s) { return count_text(s.dropped_commits); }});
  if (!has_loss) return columns;
  columns.push_back({"Loss", loss_cell});
  columns.push_back({figure.title, [figure](const S& s) {
                       return s.measured && std::isfinite(s.final_accuracy)
                                  ? figure_text(figure, s.final_accuracy)
                                  : "-";
                     }});
  return columns;
}

constexpr std::size_t kNamesMax = 8;  // workers that a line names

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
  const bool by_loss = std::ranges::all_of(
      workers, [](const WorkerRecord& w) { return std::isnan(w.held_out_accuracy); });
  // One whose targets do not vary has no R^2, and comes last.
  std::ranges::stable_sort(workers, {}, [&](const WorkerRecord& w) {
    if (by_loss) return -w.held_out_loss;
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
    std::string text = fmt::format("{} (loss {}", w.id, loss_text(w.held_out_loss));
    if (!std::isnan(w.held_out_accuracy))
      text += fmt::format(", {} {}", figure.word, figure_text(figure, w.held_out_accuracy));
    // A loop of a user need not say how many there were.
    if (w.held_out_samples > 1) text += ", " + counted(w.held_out_samples, "sample");
    return text + ")";
  };
  return fmt::format("On their own held-out samples: worst {}, best {}.\n",
                     figures(workers.front()), figures(workers.back()));
}

std::string bound_line(const Comparison& comparison) {
  if (!comparison.linear_bound_seconds) return {};
  return fmt::format("Linear bound: {}, serial gradients at the whole cluster's speed.\n",
                     duration_text(*comparison.linear_bound_seconds));
}

// What a model dropped of its typical run, and the workers of which it used nothing. Empty: it used
// all commits.
std::string dropped_line(const ModelSummary& summary, const RunRecord& run) {
  if (run.dropped_commits == 0) return {};
  std::vector<std::string> unused;
  for (const WorkerRecord& worker : run.workers)
    if (worker.commits > 0 && worker.dropped_commits == worker.commits) unused.push_back(worker.id);
  std::string text =
      fmt::format("{} dropped {} of {} with {}", summary.title,
                  count_text(static_cast<double>(run.dropped_commits)),
                  counted(run.commits, "commit"), counted(run.dropped_samples, "sample"));
  if (!unused.empty())
    text += fmt::format(
        ", all of {}{}", fmt::join(unused | std::views::take(kNamesMax), ", "),
        unused.size() > kNamesMax ? fmt::format(" and {} more", unused.size() - kNamesMax) : "");
  return text + ".\n";
}

std::string warnings(const Comparison& comparison) {
  std::string text;
  for (const std::string& line : finding_lines(comparison))
    text += fmt::format("{}Warning: {}.\n", text.empty() ? "\n" : "", line);
  return text;
}

std::string caption(const Comparison& comparison, const std::vector<ModelSummary>& summaries) {
  const std::string target = target_text(comparison);
  const auto seeds = std::ranges::max_element(summaries, {}, [](const auto& s) {
                       return s.runs.size();
                     })->runs.size();
  return fmt::format("{}: {}, H {:.2f}{}{}, {}, {} time", comparison.cluster,
                     counted(worker_count(comparison.runs.front()), "worker"),
                     summaries.front().heterogeneity, target.empty() ? "" : ", target ", target,
                     counted(seeds, "seed"), comparison.virtual_time ? "virtual" : "real");
}

using Cells = std::vector<std::string>;  // of a column; a cell may have several lines

constexpr std::size_t kGap = 2;        // columns of a terminal between those of a table
constexpr std::size_t kWidthMin = 20;  // a terminal narrower than this wraps

std::vector<std::string_view> lines_of(std::string_view cell) {
  std::vector<std::string_view> lines;
  while (true) {
    const auto end = cell.find('\n');
    lines.push_back(cell.substr(0, end));
    if (end == cell.npos) return lines;
    cell.remove_prefix(end + 1);
  }
}

std::size_t widest(const Cells& cells) {
  std::size_t width = 0;
  for (const std::string& cell : cells)
    for (const auto line : lines_of(cell)) width = std::max(width, characters(line));
  return width;
}

// Cells of more than `width` get several lines.
void narrow(Cells& cells, std::size_t width) {
  for (std::string& cell : cells)
    if (characters(cell) > width) cell = fmt::to_string(fmt::join(broken(cell, width), "\n"));
}

// The columns beside each other.
std::string block(const std::vector<Cells>& columns) {
  std::vector<std::size_t> widths;
  for (const Cells& cells : columns) widths.push_back(widest(cells));
  std::string text;
  for (std::size_t row = 0; row < columns.front().size(); ++row) {
    std::size_t height = 0;
    for (const Cells& cells : columns) height = std::max(height, lines_of(cells[row]).size());
    for (std::size_t y = 0; y < height; ++y) {
      std::string line;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const auto lines = lines_of(columns[i][row]);
        const std::string_view here = y < lines.size() ? lines[y] : "";
        const std::string padding(widths[i] - characters(here), ' ');
        const bool left = i == 0 || lines.size() > 1;
        if (i > 0) line.append(kGap, ' ');
        line.append(left ? here : padding).append(left ? padding : here);
      }
      if (height > 1 || widths.size() == 1) line.resize(line.find_last_not_of(' ') + 1);
      text += (text.empty() ? "" : "\n") + line;
    }
  }
  return text;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& columns, std::size_t width,
                    std::size_t keys) {
  std::vector<Cells> cells(columns.begin(), columns.end());
  for (Cells& column : cells)
    for (std::string& cell : column) cell = printable(std::move(cell));
  if (width == kAnyWidth) return block(cells);
  RUBATO_CHECK(keys > 0 && keys <= cells.size(), "a table needs columns that tell its rows apart");
  width = std::max(width, kWidthMin);
  std::vector<Cells> known(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(keys));
  const auto taken = [&] {  // columns of the terminal, with the gap after each
    std::size_t sum = 0;
    for (const Cells& key : known) sum += widest(key) + kGap;
    return sum;
  };
  // They leave a third to the others.
  const std::size_t most = cells.size() == keys ? width + kGap : 2 * width / 3;
  if (taken() > most)
    for (Cells& key : known) narrow(key, std::max<std::size_t>(1, most / keys - kGap));
  const std::size_t first = taken();
  std::string text;
  for (std::size_t next = keys; next < cells.size() || text.empty();) {
    std::vector<Cells> here = known;
    for (std::size_t used = first; next < cells.size(); ++next) {
      if (here.size() == keys) narrow(cells[next], width - first);
      used += widest(cells[next]) + (here.size() > keys ? kGap : 0);
      if (here.size() > keys && used > width) break;
      here.push_back(cells[next]);
    }
    text += (text.empty() ? "" : "\n\n") + block(here);
  }
  return text;
}

std::string comparison_table(const Comparison& comparison,
                             const std::vector<ModelSummary>& summaries, std::size_t width) {
  RUBATO_CHECK(!summaries.empty(), "a table needs a row");
  const bool has_target = comparison.has_target();
  const bool has_loss = std::ranges::any_of(summaries, &ModelSummary::measured);
  std::vector<std::vector<std::string>> cells;
  const bool has_dropped =
      std::ranges::any_of(summaries, [](const ModelSummary& s) { return s.dropped_commits > 0; });
  for (const Column& column : columns(has_target, comparison.linear_bound_seconds.has_value(),
                                      has_dropped, has_loss, figure_of(comparison.task))) {
    cells.push_back({column.header});
    for (const ModelSummary& summary : summaries) cells.back().push_back(column.cell(summary));
  }
  std::string dropped;
  for (const ModelSummary& summary : summaries)
    dropped += dropped_line(summary, comparison.runs[summary.typical_run]);
  const std::string end = fmt::format(
      "{}\n{}{}{}{}{}{}", headline(comparison, summaries), bound_line(comparison), dropped,
      worst_worker(comparison), comparison.note.empty() ? "" : comparison.note + "\n",
      comparison.partial.empty() ? "" : comparison.partial + "\n", warnings(comparison));
  return fmt::format("{}\n\n{}\n\n{}", wrapped(caption(comparison, summaries), width),
                     aligned(cells, width), wrapped(end, width));
}

}  // namespace rubato::report
