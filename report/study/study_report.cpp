#include "report/study/study_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "base/check.hpp"
#include "report/record_json.hpp"
#include "report/report_assets.hpp"
#include "report/study/answer.hpp"
#include "report/study/study_files.hpp"
#include "report/web_page.hpp"

namespace rubato::report {
namespace {

Json page_spread(const Spread& s) {
  return {{"median", chart_number(s.median)},
          {"min", chart_number(s.min)},
          {"max", chart_number(s.max)}};
}

Json curve_json(const std::vector<CurvePoint>& curve) {
  Json json = {{"seconds", Json::array()}, {"loss", Json::array()}, {"mean_loss", Json::array()}};
  for (const CurvePoint& point : curve) {
    json["seconds"].push_back(chart_number(point.seconds));
    json["loss"].push_back(chart_number(point.loss));
    json["mean_loss"].push_back(chart_number(point.mean_loss));
  }
  return json;
}

Json page_trials(const Contender& contender, const std::vector<Trial>& trials) {
  Json json = Json::array();
  for (const Trial& trial : trials)
    json.push_back({{"choice", trial_text(contender, trial.choice)},
                    {"runs", trial.runs},
                    {"reached", trial.reached},
                    {"time", chart_number(trial.time)},
                    {"loss", chart_number(trial.loss)}});
  return json;
}

Json page_summary(const StudyPlan& plan, const VariantSummary& s) {
  const Contender& contender = plan.study.contenders[s.contender];
  return {{"point", plan.points[s.point].choices},
          {"contender", s.contender},
          {"runs", s.runs},
          {"reached", s.reached},
          {"diverged", s.diverged},
          {"target_loss", chart_number(first_variant(plan, s.point).config.stop.target_loss)},
          {"time", page_spread(s.time)},
          {"saving", chart_number(s.saving)},
          {"bound_share", chart_number(s.bound_share)},
          {"length", chart_number(s.length.median)},
          {"steps", page_spread(s.steps)},
          {"commits", page_spread(s.commits)},
          {"bytes", page_spread(s.bytes)},
          {"rate", page_spread(s.bytes_per_second)},
          {"loss", page_spread(s.final_loss)},
          {"accuracy", page_spread(s.final_accuracy)},
          {"compute", chart_number(s.compute_share)},
          {"wait", chart_number(s.wait_share)},
          {"communicate", chart_number(s.communicate_share)},
          {"choice", trial_text(contender, s.trial)},
          {"trials", page_trials(contender, s.trials)},
          {"curve", curve_json(s.curve)}};
}

Json page_axes(const Study& study) {
  Json axes = Json::array();
  for (const Axis& axis : study.axes) {
    Json values = Json::array();
    for (const Choice& choice : axis.choices)
      values.push_back({{"label", choice.label}, {"number", chart_number(choice.number)}});
    axes.push_back({{"name", axis.name}, {"values", std::move(values)}});
  }
  return axes;
}

// "the best sync.adsp.fixed_rate of 1, 2, 4".
std::string search_text(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Choice& choice : axis.choices) labels.push_back(choice.label);
  return fmt::format("the best {} of {}", axis.name, fmt::join(labels, ", "));
}

Json contenders_json(const Study& study) {
  std::vector<std::string> models;
  for (const Contender& contender : study.contenders) models.push_back(contender.sync);
  const auto styles = entry_styles(models);
  Json contenders = Json::array();
  for (const Contender& contender : study.contenders) {
    std::vector<std::string> settings;
    for (const Setting& setting : contender.settings)
      settings.push_back(fmt::format("{} = {}", setting.key, setting.value));
    for (const Axis& axis : contender.search) settings.push_back(search_text(axis));
    contenders.push_back({{"title", contender.name},
                          {"style", style_json(styles[contenders.size()])},
                          {"sync", contender.sync},
                          {"settings", fmt::format("{}", fmt::join(settings, ", "))}});
  }
  return contenders;
}

// What all points have in common, or all they have: "18", "18, 36".
std::string joined(const std::set<std::string>& values) {
  return fmt::format("{}", fmt::join(values, " or "));
}

}  // namespace

Json study_data(const StudyResults& results, const std::vector<VariantSummary>& summaries) {
  const StudyPlan& plan = results.plan;
  const Study& study = plan.study;
  std::set<std::string> targets;
  std::set<int> workers;
  for (const Variant& variant : plan.variants) {
    if (const auto target = target_text(variant.config); !target.empty()) targets.insert(target);
    workers.insert(variant.config.worker_count());
  }
  Json rows = Json::array();
  for (const VariantSummary& summary : summaries) rows.push_back(page_summary(plan, summary));
  return {{"name", study.name},
          {"question", study.question},
          {"answer", summaries.empty() ? "" : study_answer(results, summaries)},
          {"expected", study.expected},
          {"target", joined(targets)},
          {"workers", fmt::format("{}", fmt::join(workers, ", "))},
          {"virtual_time", true},
          {"figure", page_figure(task_of(plan))},
          {"command", results.command},
          {"study_text", study.text},
          {"cluster_text", plan.cluster_text},
          {"seeds", study.seeds},
          {"planned", plan.run_count()},
          {"axes", page_axes(study)},
          {"x", study.x},
          {"contenders", contenders_json(study)},
          {"summaries", std::move(rows)},
          {"host", host_json(results.host)}};
}

std::string study_report(const StudyResults& results,
                         const std::vector<VariantSummary>& summaries) {
  RUBATO_CHECK(!summaries.empty(), "a report needs a run");
  return web_page(study_page, results.plan.study.name + " - Rubato study",
                  study_data(results, summaries), study_script);
}

}  // namespace rubato::report
