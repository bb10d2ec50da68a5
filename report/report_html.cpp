#include "report/report_html.hpp"

#include <fmt/format.h>

#include <array>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "report/page_curves.hpp"
#include "report/record_json.hpp"
#include "report/report_assets.hpp"
#include "report/web_page.hpp"

namespace rubato::report {
namespace {

constexpr std::size_t kCommitPoints = 120;  // of one run, for each of its workers

Json commit_counts_json(const std::vector<CommitCountRecord>& counts) {
  Json table = {{"seconds", Json::array()}, {"commits", Json::array()}};
  for (const std::size_t i : thinned(counts.size(), kCommitPoints)) {
    table["seconds"].push_back(chart_number(counts[i].seconds));
    table["commits"].push_back(counts[i].commits);
  }
  return table;
}

// "too large 12, not finite 3"; empty: none.
std::string refused_words(const RefusedByReason& refused) {
  constexpr std::array kReasons{"not finite", "too large", "of another kind", "out of date"};
  std::string text;
  for (std::size_t i = 0; i < refused.size(); ++i)
    if (refused[i] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kReasons[i], refused[i]);
  return text;
}

Json held_out_json(const WorkerRecord& worker) {
  if (worker.held_out_samples == 0) return nullptr;
  return {{"samples", worker.held_out_samples},
          {"loss", chart_number(worker.held_out_loss)},
          {"accuracy", chart_number(worker.held_out_accuracy)}};
}

Json workers_json(const std::vector<WorkerRecord>& workers) {
  Json rows = Json::array();
  for (const WorkerRecord& worker : workers) {
    rows.push_back({{"id", worker.id},
                    {"steps", worker.steps},
                    {"commits", worker.commits},
                    {"compute", chart_number(worker.compute.seconds())},
                    {"wait", chart_number(worker.wait.seconds())},
                    {"communicate", chart_number(worker.communicate.seconds())},
                    {"step_seconds", chart_number(worker.step_seconds)},
                    {"fate", worker.fate},
                    {"joined", chart_number(worker.joined_seconds)},
                    {"left", chart_number(worker.left_seconds)},
                    {"refused", refused_words(worker.refused)},
                    {"dropped_commits", worker.dropped_commits},
                    {"dropped_samples", worker.dropped_samples},
                    {"joules", chart_number(worker.joules)},
                    {"held_out", held_out_json(worker)}});
  }
  return rows;
}

Json decisions_json(const std::vector<DecisionRecord>& decisions) {
  Json rows = Json::array();
  for (const DecisionRecord& decision : decisions) {
    rows.push_back({{"seconds", chart_number(decision.seconds)},
                    {"quantity", decision.quantity},
                    {"value", chart_number(decision.value)},
                    {"reason", decision.reason}});
  }
  return rows;
}

Json page_run(const RunRecord& run, std::size_t model, bool typical) {
  Json json = {
      {"model", model},
      {"seed", std::to_string(run.seed)},  // 64 bits are too many for a JavaScript number
      {"typical", typical},
      {"time_to_target", chart_number(run.time_to_target_seconds)},
      {"stop_reason", run.stop_reason},
      {"seconds", chart_number(run.seconds)},
      {"steps", run.steps},
      {"commits", run.commits},
      {"refused_commits", run.refused_commits ? Json(*run.refused_commits) : Json(nullptr)},
      {"refused", refused_words(run.refused)},
      {"dropped_commits", run.dropped_commits},
      {"dropped_samples", run.dropped_samples},
      {"measured", run.measured()},
      {"diverged", run.found(finding::kDiverged)},
      {"final_loss", run.measured() ? chart_number(run.final_loss) : Json(nullptr)},
      {"final_accuracy", run.measured() ? chart_number(run.final_accuracy) : Json(nullptr)},
      {"evaluations", curves_json(run.evaluations)},
      {"decisions", decisions_json(run.decisions)},
      {"workers", workers_json(run.workers)}};
  if (typical) json["commit_counts"] = commit_counts_json(run.commit_counts);
  return json;
}

Json model_json(const ModelSummary& summary) {
  return {
      {"title", summary.title},
      {"style", style_json(model_style(summary.sync))},
      {"runs", summary.runs.size()},
      {"reached", summary.reached},
      {"time_to_target", chart_number(summary.time_to_target)},
      {"time_range", Json::array({chart_number(summary.time_min), chart_number(summary.time_max)})},
      {"first", summary.first},
      {"saving", chart_number(summary.saving)},
      {"bound_share", chart_number(summary.bound_share)},
      {"seconds", chart_number(summary.seconds)},
      {"shares",
       {{"compute", chart_number(summary.compute_share)},
        {"wait", chart_number(summary.wait_share)},
        {"communicate", chart_number(summary.communicate_share)}}},
      {"steps", summary.steps},
      {"commits", summary.commits},
      {"bytes_up", summary.bytes_up},
      {"bytes_down", summary.bytes_down},
      {"measured", summary.measured},
      {"diverged", summary.spoiling && summary.spoiling->code == finding::kDiverged},
      {"final_loss", summary.measured ? chart_number(summary.final_loss) : Json(nullptr)},
      {"final_accuracy", summary.measured ? chart_number(summary.final_accuracy) : Json(nullptr)},
      {"path", path_json(summary.path)},
      {"path_text", summary.path.empty() ? "" : path_text(summary.path)},
      {"heterogeneity", chart_number(summary.heterogeneity)}};
}

}  // namespace

Json report_data(const Comparison& comparison, const std::vector<ModelSummary>& summaries) {
  RUBATO_CHECK(!summaries.empty(), "a report needs a model");
  Json models = Json::array();
  Json runs = Json::array();
  std::set<std::uint64_t> seeds;
  for (const ModelSummary& summary : summaries) {
    for (const std::size_t i : summary.runs) {
      runs.push_back(page_run(comparison.runs[i], models.size(), i == summary.typical_run));
      seeds.insert(comparison.runs[i].seed);
    }
    models.push_back(model_json(summary));
  }
  Json seed_names = Json::array();
  for (const std::uint64_t seed : seeds) seed_names.push_back(std::to_string(seed));
  return {{"cluster", comparison.cluster},
          {"headline", headline(comparison, summaries)},
          {"target", target_text(comparison)},
          {"target_loss", chart_number(comparison.target_loss)},
          {"target_accuracy", chart_number(comparison.target_accuracy)},
          {"linear_bound", chart_number(comparison.linear_bound_seconds)},
          {"figure", page_figure(comparison.task)},
          {"virtual_time", comparison.virtual_time},
          {"note", comparison.note},
          {"partial", comparison.partial},
          {"findings", finding_lines(comparison)},
          {"command", comparison.command},
          {"config", comparison.config_text},
          {"host", host_json(comparison.host)},
          {"seeds", std::move(seed_names)},
          {"models", std::move(models)},
          {"runs", std::move(runs)}};
}

std::string report_html(const Comparison& comparison, const std::vector<ModelSummary>& summaries) {
  return web_page(report_page, comparison.cluster + " - Rubato comparison",
                  report_data(comparison, summaries), report_script);
}

}  // namespace rubato::report
