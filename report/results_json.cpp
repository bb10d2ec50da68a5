#include "report/results_json.hpp"

#include <array>

#include "report/record_json.hpp"

namespace rubato::report {
namespace {

// By reason; those of none are left out.
Json refused_json(const RefusedByReason& refused) {
  constexpr std::array kReasons{"not_finite", "too_large", "wrong_kind", "out_of_date"};
  Json json = Json::object();
  for (std::size_t i = 0; i < refused.size(); ++i)
    if (refused[i] > 0) json[kReasons[i]] = refused[i];
  return json;
}

// Of all workers; empty: what one of them draws is unknown.
std::optional<double> joules_of(const RunRecord& run) {
  double sum = 0;
  for (const WorkerRecord& worker : run.workers) {
    if (!worker.joules) return std::nullopt;
    sum += *worker.joules;
  }
  return run.workers.empty() ? std::nullopt : std::optional(sum);
}

Json worker_json(const WorkerRecord& worker, const Figure& figure) {
  Json json = {{"id", worker.id}, {"steps", worker.steps}, {"commits", worker.commits}};
  add_figures(json, worker);
  if (worker.late_share() <= kLateShareMax) json.erase("late_s");
  if (worker.left_out > 0) json["left_out"] = worker.left_out;
  if (worker.joules) json["joules"] = *worker.joules;
  if (worker.joined_seconds > 0) json["joined_s"] = worker.joined_seconds;
  if (worker.left_seconds) {
    json["left_s"] = *worker.left_seconds;
    json["fate"] = worker.fate;
  }
  if (worker.refused != RefusedByReason{}) json["refused"] = refused_json(worker.refused);
  if (worker.held_out_samples > 0)
    json["held_out"] = {{"samples", worker.held_out_samples},
                        {"loss", worker.held_out_loss},
                        {figure.key, worker.held_out_accuracy}};
  return json;
}

Json target_json(const Comparison& comparison) {
  Json json = {{"loss", optional_json(comparison.target_loss)},
               {figure_of(comparison.task).key, optional_json(comparison.target_accuracy)}};
  add_targets(json, "", comparison.class_targets);
  return json;
}

Json run_json(const Comparison& comparison, const RunRecord& run) {
  const Figure figure = figure_of(comparison.task);
  Json workers = Json::array();
  for (const WorkerRecord& worker : run.workers) workers.push_back(worker_json(worker, figure));
  Json json = {{"sync", run.sync},
               {"seed", run.seed},
               {"time_to_target_s", optional_json(run.time_to_target_seconds)}};
  if (comparison.linear_bound_seconds)
    json["linear_bound_share"] =
        run.time_to_target_seconds
            ? Json(*comparison.linear_bound_seconds / *run.time_to_target_seconds)
            : Json(nullptr);
  json.update(totals_json(run));
  json["final_loss"] = run.measured() ? Json(run.final_loss) : Json(nullptr);
  json[std::string("final_") + figure.key] =
      run.measured() ? Json(run.final_accuracy) : Json(nullptr);
  if (run.measured()) add_figures(json, "final_", run.evaluations.back().classes);
  if (run.measured() && comparison.has_target()) {
    const Judged figures = final_figures(comparison, run);
    json["judged_loss"] = figures.loss;
    json[std::string("judged_") + figure.key] = figures.accuracy;
    add_figures(json, "judged_", figures.classes);
  }
  json["heterogeneity"] = run.heterogeneity;
  json["workers"] = std::move(workers);
  if (run.refused != RefusedByReason{}) json["refused"] = refused_json(run.refused);
  add_rare_figures(json, run);
  json.erase("late_s");  // told by worker
  if (run.setbacks > 0) json["setbacks"] = run.setbacks;
  if (const auto joules = joules_of(run)) json["joules"] = *joules;
  if (!run.path.empty()) json["path"] = path_json(run.path);
  json["findings"] = findings_json(run.findings);
  return json;
}

}  // namespace

std::string results_json(const Comparison& comparison) {
  Json runs = Json::array();
  for (const RunRecord& run : comparison.runs) runs.push_back(run_json(comparison, run));
  Json options = Json::object();
  for (const OptionRecord& option : comparison.options)
    options[option.sync][option.key] = option.value;
  Json results = {{"cluster", comparison.cluster},
                  {"command", comparison.command},
                  {"time", comparison.virtual_time ? "virtual" : "real"},
                  {"target", target_json(comparison)},
                  {"complete", comparison.partial.empty()},
                  {"host", host_json(comparison.host)},
                  {"options", std::move(options)},
                  {"configuration", comparison.config_text},
                  {"runs", std::move(runs)}};
  if (comparison.linear_bound_seconds) results["linear_bound_s"] = *comparison.linear_bound_seconds;
  if (!comparison.note.empty()) results["note"] = comparison.note;
  if (!comparison.partial.empty()) results["partial"] = comparison.partial;
  return json_text(results, 2) + "\n";
}

}  // namespace rubato::report
