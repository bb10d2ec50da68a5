#include "report/study/study_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>

#include "base/quote.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "report/record_json.hpp"
#include "report/table.hpp"

namespace rubato::report {
namespace {

Json axes_json(const std::vector<Axis>& axes) {
  Json json = Json::object();
  for (const Axis& axis : axes) {
    Json values = Json::array();
    for (const Choice& choice : axis.choices)
      values.push_back(choice.number ? Json(*choice.number) : Json(choice.label));
    json[axis.name] = std::move(values);
  }
  return json;
}

Json spread_json(const Spread& s) {
  return {{"median", number_json(s.median)},
          {"low", number_json(s.low)},
          {"high", number_json(s.high)},
          {"min", number_json(s.min)},
          {"max", number_json(s.max)}};
}

Json point_json(const std::vector<Axis>& axes, const Point& point) {
  Json json = Json::object();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Choice& choice = axes[i].choices[point.choices[i]];
    json[axes[i].name] = choice.number ? Json(*choice.number) : Json(choice.label);
  }
  return json;
}

// The keys of a search with the values of one trial.
Json trial_json(const Contender& contender, const Point& trial) {
  return point_json(contender.search, trial);
}

Json trials_json(const Contender& contender, const std::vector<Trial>& trials) {
  Json json = Json::array();
  for (const Trial& trial : trials)
    json.push_back({{"choice", trial_json(contender, trial.choice)},
                    {"runs", trial.runs},
                    {"reached", trial.reached},
                    {"time_to_target_s", number_json(trial.time)},
                    {"final_loss", number_json(trial.loss)}});
  return json;
}

Json summary_json(const StudyResults& results, const VariantSummary& s) {
  const Study& study = results.plan.study;
  const Contender& contender = study.contenders[s.contender];
  Json json = {{"point", point_json(study.axes, results.plan.points[s.point])},
               {"contender", contender.name},
               {"runs", s.runs},
               {"reached", s.reached},
               {"diverged", s.diverged},
               {"time_to_target_s", spread_json(s.time)},
               {"saving", optional_json(s.saving)},
               {"linear_bound_share", optional_json(s.bound_share)},
               {"seconds", spread_json(s.length)},
               {"steps", spread_json(s.steps)},
               {"commits", spread_json(s.commits)},
               {"bytes", spread_json(s.bytes)},
               {"bytes_per_second", spread_json(s.bytes_per_second)},
               {"compute_share", s.compute_share},
               {"wait_share", s.wait_share},
               {"communicate_share", s.communicate_share},
               {"final_loss", spread_json(s.final_loss)},
               {fmt::format("final_{}", figure_of(task_of(results.plan)).key),
                spread_json(s.final_accuracy)},
               {"heterogeneity", s.heterogeneity},
               {"workers", s.workers}};
  if (contender.search.empty()) return json;
  json["choice"] = trial_json(contender, s.trial);
  json["trials"] = trials_json(contender, s.trials);
  return json;
}

Json run_json(const StudyResults& results, const Variant& variant, const CellResult& r) {
  const Study& study = results.plan.study;
  Json json = {{"point", point_json(study.axes, results.plan.points[variant.point])},
               {"contender", study.contenders[variant.contender].name},
               {"sync", study.contenders[variant.contender].sync}};
  const Contender& contender = study.contenders[variant.contender];
  if (!contender.search.empty()) json["choice"] = trial_json(contender, variant.trial);
  json.update(figures_json(r, task_of(results.plan)));
  return json;
}

// Empty where nobody measured.
std::string measure(const CellResult& run, double value) {
  return run.measured() ? fmt::to_string(value) : "";
}

struct Column {
  std::string header;
  std::function<std::string(const VariantSummary&)> cell;
};

std::string time_cell(const VariantSummary& s) {
  const std::string part = s.reached == s.runs ? "" : fmt::format(" ({}/{})", s.reached, s.runs);
  return duration_or(s.time.median) + part;
}

std::string range_cell(const VariantSummary& s) {
  if (!std::isfinite(s.time.min)) return "-";
  return fmt::format("{} to {}", duration_text(s.time.min), duration_or(s.time.max, "never"));
}

std::vector<Column> columns(const Study& study, bool has_target, bool has_bound, bool measured) {
  using S = VariantSummary;
  std::vector<Column> all{
      {"Contender", [&](const S& s) { return study.contenders[s.contender].name; }}};
  if (searches(study))
    all.push_back({"Best of a search", [&](const S& s) {
                     const Contender& who = study.contenders[s.contender];
                     return who.search.empty() ? "-" : trial_text(who, s.trial);
                   }});
  if (has_target) {
    all.push_back({"Time to target", time_cell});
    all.push_back({"Range", range_cell});
    if (baseline(study))
      all.push_back(
          {"Saving", [](const S& s) { return s.saving ? percent_text(*s.saving) : "-"; }});
    if (has_bound)
      all.push_back({"Of bound", [](const S& s) {
                       return s.bound_share ? percent_text(*s.bound_share) : "-";
                     }});
  } else {
    all.push_back({"Time", [](const S& s) { return duration_text(s.length.median); }});
  }
  const std::vector<Column> figures{
      {"Compute", [](const S& s) { return percent_text(s.compute_share); }},
      {"Wait", [](const S& s) { return percent_text(s.wait_share); }},
      {"Comm.", [](const S& s) { return percent_text(s.communicate_share); }},
      {"Steps", [](const S& s) { return count_text(s.steps.median); }},
      {"Commits", [](const S& s) { return count_text(s.commits.median); }},
      {"Bytes", [](const S& s) { return bytes_text(s.bytes.median); }}};
  all.insert(all.end(), figures.begin(), figures.end());
  if (measured)
    all.push_back({"Loss", [](const S& s) {
                     if (s.curve.empty()) return std::string("-");
                     return loss_text(s.final_loss.median) +
                            (s.diverged > 0 ? fmt::format(" ({} diverged)", s.diverged) : "");
                   }});
  return all;
}

std::string table_of(const std::vector<Column>& shown, const std::vector<VariantSummary>& rows,
                     std::size_t width) {
  std::vector<std::vector<std::string>> cells;
  for (const Column& column : shown) {
    cells.push_back({column.header});
    for (const VariantSummary& row : rows) cells.back().push_back(column.cell(row));
  }
  return aligned(cells, width) + "\n";
}

}  // namespace

std::string target_text(const cluster::ClusterConfig& config) {
  return targets_text(config.stop.target_loss, config.stop.target_accuracy,
                      config.stop.class_targets, config.dataset.task);
}

std::string study_json(const StudyResults& results, const std::vector<VariantSummary>& summaries) {
  const Study& study = results.plan.study;
  Json contenders = Json::array();
  for (const Contender& contender : study.contenders) {
    Json settings = Json::object();
    for (const Setting& setting : contender.settings) settings[setting.key] = setting.value;
    contenders.push_back(
        {{"name", contender.name}, {"sync", contender.sync}, {"settings", std::move(settings)}});
    if (!contender.search.empty()) contenders.back()["search"] = axes_json(contender.search);
  }
  Json rows = Json::array();
  for (const VariantSummary& summary : summaries) rows.push_back(summary_json(results, summary));
  Json runs = Json::array();
  for (std::size_t i = 0; i < results.cells.size(); ++i)
    for (const auto& cell : results.cells[i])
      if (cell) runs.push_back(run_json(results, results.plan.variants[i], *cell));
  const Json json = {{"study", study.name},           {"question", study.question},
                     {"expected", study.expected},    {"host", host_json(results.host)},
                     {"seeds", study.seeds},          {"complete", missing_runs(results) == 0},
                     {"axes", axes_json(study.axes)}, {"contenders", std::move(contenders)},
                     {"summaries", std::move(rows)},  {"runs", std::move(runs)}};
  return json_text(json, 2) + "\n";
}

std::string study_csv(const StudyResults& results) {
  const Study& study = results.plan.study;
  std::string csv;
  for (const Axis& axis : study.axes) csv += csv_field(axis.name) + ",";
  const bool choices = searches(study);
  csv += choices ? "contender,choice,sync," : "contender,sync,";
  csv += fmt::format(
      "seed,time_to_target_s,diverged,seconds,steps,commits,bytes_up,bytes_down,"
      "compute_share,wait_share,communicate_share,final_loss,final_{},heterogeneity,"
      "workers\n",
      figure_of(task_of(results.plan)).key);
  const auto out = std::back_inserter(csv);
  for (std::size_t i = 0; i < results.cells.size(); ++i) {
    const Variant& variant = results.plan.variants[i];
    const Contender& contender = study.contenders[variant.contender];
    const Point& point = results.plan.points[variant.point];
    for (const auto& cell : results.cells[i]) {
      if (!cell) continue;
      const CellResult& r = *cell;
      for (std::size_t a = 0; a < study.axes.size(); ++a)
        csv += csv_field(study.axes[a].choices[point.choices[a]].label) + ",";
      csv += csv_field(contender.name) + ",";
      if (choices) csv += csv_field(trial_text(contender, variant.trial)) + ",";
      fmt::format_to(out, "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", contender.sync,
                     r.seed, r.time_to_target ? fmt::to_string(*r.time_to_target) : "", r.diverged,
                     r.seconds, r.steps, r.commits, r.bytes_up, r.bytes_down, r.compute_share,
                     r.wait_share, r.communicate_share, measure(r, r.final_loss),
                     measure(r, r.final_accuracy), r.heterogeneity, r.workers);
    }
  }
  return csv;
}

std::string study_table(const StudyResults& results, const std::vector<VariantSummary>& summaries,
                        std::size_t width) {
  const StudyPlan& plan = results.plan;
  std::string text;
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    std::vector<VariantSummary> rows;
    std::ranges::copy_if(summaries, std::back_inserter(rows),
                         [&](const VariantSummary& s) { return s.point == point; });
    if (rows.empty()) continue;
    const Variant& variant = first_variant(plan, point);
    const bool measured =
        std::ranges::any_of(rows, [](const VariantSummary& s) { return !s.curve.empty(); });
    const std::string target = target_text(variant.config);
    const std::string grid = point_text(plan.study, plan.points[point]);
    std::string caption = fmt::format(
        "{}: {}, H {:.2f}{}{}, {}", grid.empty() ? plan.study.name : grid,
        counted(static_cast<std::uint64_t>(std::llround(rows.front().workers)), "worker"),
        rows.front().heterogeneity, target.empty() ? "" : ", target ", target,
        counted(rows.front().runs, "seed"));
    const bool bound = !results.linear_bounds.empty() && results.linear_bounds[point];
    if (bound)
      caption += fmt::format(", linear bound {}", duration_text(*results.linear_bounds[point]));
    text +=
        fmt::format("{}{}\n\n{}\n", text.empty() ? "" : "\n", wrapped(caption, width),
                    table_of(columns(plan.study, !target.empty(), bound, measured), rows, width));
  }
  return text;
}

}  // namespace rubato::report
