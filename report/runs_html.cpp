#include "report/runs_html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"
#include "base/text.hpp"
#include "report/model_style.hpp"
#include "report/page_curves.hpp"
#include "report/record_json.hpp"
#include "report/report_assets.hpp"
#include "report/web_page.hpp"
#include "sync/factory.hpp"

namespace rubato::report {
namespace {

std::string name_of(const SideBySideRow& row) {
  return row.run + " " + row.title;
}

// The first row of a model has its style, as everywhere. Shades of one colour are hard to tell
// apart where they cross, so further rows have the styles of models that are not there, while they
// last.
std::vector<ModelStyle> row_styles(const std::vector<SideBySideRow>& rows) {
  std::vector<std::string> syncs;
  for (const SideBySideRow& row : rows) syncs.push_back(row.sync);
  auto styles = entry_styles(syncs);
  const auto models = sync::models();
  auto free = models.begin();
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    const auto own = syncs.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(syncs.begin(), own, *own) == own) continue;
    free = std::find_if(free, models.end(), [&](const sync::ModelInfo& model) {
      return std::ranges::find(syncs, model.name) == syncs.end();
    });
    if (free == models.end()) break;
    styles[i] = model_style((free++)->name);
  }
  return styles;
}

// A row of the table: the texts that a terminal shows, and figures of the model's runs.
Json row_json(const std::vector<std::string>& cells, const ModelSummary& summary) {
  return {{"cells", cells},
          {"steps", summary.steps},
          {"commits", summary.commits},
          {"bytes", summary.bytes_up + summary.bytes_down},
          {"loss", summary.measured ? chart_number(summary.final_loss) : Json(nullptr)},
          {"accuracy", summary.measured ? chart_number(summary.final_accuracy) : Json(nullptr)}};
}

Json run_json(const RunRecord& run, std::size_t model, bool typical) {
  return {{"model", model},
          {"seed", std::to_string(run.seed)},  // 64 bits are too many for a JavaScript number
          {"typical", typical},
          {"time_to_target", chart_number(run.time_to_target_seconds)},
          {"measured", run.measured()},
          {"evaluations", curves_json(run.evaluations)}};
}

Json directory_json(const NamedComparison& named) {
  const Comparison& c = named.comparison;
  std::string note = c.note;
  if (!c.partial.empty()) note += (note.empty() ? "" : "; ") + c.partial;
  return {
      {"name", named.name},   {"cluster", c.cluster}, {"time", c.virtual_time ? "virtual" : "real"},
      {"command", c.command}, {"note", note},         {"host", host_json(c.host)}};
}

}  // namespace

std::string runs_headline(const SideBySide& all) {
  RUBATO_CHECK(!all.rows.empty(), "a headline needs a row");
  const auto [best, worst] = std::ranges::minmax_element(all.rows, {}, &SideBySideRow::median);
  const bool timed = !all.target.empty();
  if (std::isinf(best->median))
    return timed ? fmt::format("No run reached {} in most of its seeds.", all.target)
                 : "No run has a final loss that is a number.";
  const std::string first = timed
                                ? fmt::format("{} has the shortest time to {}: {}", name_of(*best),
                                              all.target, duration_text(best->median))
                                : fmt::format("{} has the lowest final loss: {}", name_of(*best),
                                              loss_text(best->median));
  if (all.rows.size() == 1) return first + ".";
  if (std::isinf(worst->median))
    return fmt::format("{}; {} {}.", first, name_of(*worst),
                       timed ? "did not reach it" : "diverged");
  if (!timed)
    return fmt::format("{}; {} has the highest: {}.", first, name_of(*worst),
                       loss_text(worst->median));
  return fmt::format("{}; {} took longest: {}.", first, name_of(*worst),
                     duration_text(worst->median));
}

std::string runs_html(const std::vector<NamedComparison>& runs, const SideBySide& all) {
  const auto styles = row_styles(all.rows);
  const auto cells = side_by_side_cells(all);
  Json models = Json::array(), rows = Json::array(), curves = Json::array(),
       directories = Json::array();
  for (const NamedComparison& named : runs) {
    directories.push_back(directory_json(named));
    for (const ModelSummary& summary : summarize(named.comparison)) {
      const std::size_t model = models.size();
      models.push_back({{"title", name_of(all.rows[model])},
                        {"style", style_json(styles[model])},
                        {"time_to_target", chart_number(summary.time_to_target)}});
      rows.push_back(row_json(cells[model + 1], summary));
      for (const std::size_t i : summary.runs)
        curves.push_back(run_json(named.comparison.runs[i], model, i == summary.typical_run));
    }
  }
  const Comparison& first = runs.front().comparison;
  const bool is_virtual = std::ranges::all_of(
      runs, [](const NamedComparison& named) { return named.comparison.virtual_time; });
  const Json data = {{"headline", runs_headline(all)},
                     {"target", all.target},
                     {"target_loss", chart_number(first.target_loss)},
                     {"target_accuracy", chart_number(first.target_accuracy)},
                     {"figure", page_figure(first.task)},
                     {"virtual_time", is_virtual},
                     {"header", cells.front()},
                     {"rows", std::move(rows)},
                     {"directories", std::move(directories)},
                     {"models", std::move(models)},
                     {"runs", std::move(curves)}};
  return web_page(runs_page, "Runs side by side - Rubato", data, runs_script);
}

}  // namespace rubato::report
