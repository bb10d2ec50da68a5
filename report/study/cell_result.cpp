#include "report/study/cell_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "report/comparison.hpp"
#include "report/finding_codes.hpp"
#include "report/record_json.hpp"

namespace rubato::report {
namespace {

constexpr std::size_t kStudyCurvePoints = 150;  // of one run

// Six digits are more than a chart shows.
double rounded(double value) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

CellResult parse_result(const Json& json) {
  CellResult r;
  r.seed = json.at("seed");
  r.time_to_target = optional_number(json.at("time_to_target_s"));
  r.diverged = json.at("diverged");
  parse_totals(json, r);
  r.final_loss = number_or_nan(json.at("final_loss"));
  r.final_accuracy = number_or_nan(json.at("final_accuracy"));
  r.heterogeneity = number_or_nan(json.at("heterogeneity"));
  r.workers = json.at("workers");
  r.cost_seconds = number_or_nan(json.at("cost_seconds"));
  // Journals of 0.1.0 have the mean alone.
  for (const Json& point : json.at("curve"))
    r.curve.push_back({number_or_nan(point.at(0)), number_or_nan(point.at(1)),
                       number_or_nan(point.at(2)),
                       number_or_nan(point.at(point.size() > 3 ? 3 : 1))});
  return r;
}

}  // namespace

CellResult cell_result(const RunRecord& run, double cost_seconds) {
  CellResult r;
  r.seed = run.seed;
  r.time_to_target = run.time_to_target_seconds;
  r.stop_reason = run.stop_reason;
  r.seconds = run.seconds;
  r.steps = run.steps;
  r.commits = run.commits;
  r.bytes_up = run.bytes_up;
  r.bytes_down = run.bytes_down;
  r.compute_share = run.compute_share;
  r.wait_share = run.wait_share;
  r.communicate_share = run.communicate_share;
  const double none = std::numeric_limits<double>::quiet_NaN();
  r.final_loss = run.measured() ? run.final_loss : none;
  r.final_accuracy = run.measured() ? run.final_accuracy : none;
  r.heterogeneity = run.heterogeneity;
  r.workers = run.workers.size();
  r.cost_seconds = rounded(cost_seconds);
  const auto& evaluations = run.evaluations;
  r.diverged = run.found(finding::kDiverged);
  const std::size_t kept = std::min(evaluations.size(), kStudyCurvePoints);
  for (std::size_t i = 0; i < kept; ++i) {
    const std::size_t at = kept == 1 ? 0 : i * (evaluations.size() - 1) / (kept - 1);
    const EvaluationRecord& point = evaluations[at];
    r.curve.push_back({rounded(point.seconds), rounded(point.loss), rounded(point.accuracy),
                       rounded(judged(evaluations, at).loss)});
  }
  return r;
}

Json figures_json(const CellResult& r, Task task) {
  Json json = {{"seed", r.seed},
               {"time_to_target_s", optional_json(r.time_to_target)},
               {"diverged", r.diverged}};
  json.update(totals_json(r));
  json.update({{"final_loss", number_json(r.final_loss)},
               {fmt::format("final_{}", figure_of(task).key), number_json(r.final_accuracy)},
               {"heterogeneity", r.heterogeneity},
               {"workers", r.workers}});
  return json;
}

std::string journal_line(const JournalEntry& entry) {
  const CellResult& r = entry.result;
  Json curve = Json::array();
  for (const CurvePoint& point : r.curve)
    curve.push_back(Json::array({point.seconds, point.loss, point.accuracy, point.mean_loss}));
  Json json = {{"key", entry.key}, {"build", entry.build}};
  json.update(figures_json(r, Task::Classification));
  json["cost_seconds"] = r.cost_seconds;
  json["curve"] = std::move(curve);
  return json_text(json);
}

std::optional<JournalEntry> parse_journal_line(const std::string& line) {
  // A line cut short by a crash is no JSON, or lacks keys: the library says so by throwing.
  try {
    const Json json = Json::parse(line);
    return JournalEntry{json.at("key"), json.at("build"), parse_result(json)};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace rubato::report
