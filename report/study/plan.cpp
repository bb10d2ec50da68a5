#include "report/study/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/cluster_plan.hpp"
#include "report/study/fingerprint.hpp"

namespace rubato::report {
namespace {

void add_chosen(const std::vector<Axis>& axes, const Point& point, std::vector<Setting>& all) {
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const auto& chosen = axes[axis].choices[point.choices[axis]].settings;
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
}

std::vector<Setting> settings_of(const Study& study, const Point& point, const Variant& variant) {
  const Contender& contender = study.contenders[variant.contender];
  std::vector<Setting> all = study.settings;
  add_chosen(study.axes, point, all);
  all.insert(all.end(), contender.settings.begin(), contender.settings.end());
  add_chosen(contender.search, variant.trial, all);
  return all;
}

// Sets the cluster of `variant`.
Result<void> configure(const StudyPlan& plan, const cluster::ClusterSource& cluster,
                       Variant& variant) {
  const Contender& who = plan.study.contenders[variant.contender];
  const Point& point = plan.points[variant.point];
  const auto check = [&]() -> Result<void> {
    RUBATO_ASSIGN(variant.config,
                  cluster::parse_cluster(cluster.text, cluster.file, cluster.catalog_text,
                                         settings_of(plan.study, point, variant)));
    if (!who.search.empty() && variant.config.timing_only())
      return fail(ErrorCode::BadInput,
                  "search: model.kind = \"timing\" has no loss, so no choice can be the best");
    RUBATO_TRY(cluster::require_step_times(variant.config));
    return cluster::check_sync(variant.config, who.sync);
  };
  const auto fits = check();
  if (fits) return {};
  const std::string grid = point_text(plan.study, point);
  const std::string trial = trial_text(who, variant.trial);
  return fail(fits.error().code,
              fmt::format("{}: {}{}{}{}{}: {}", plan.study.file, grid, grid.empty() ? "" : ", ",
                          who.name, trial.empty() ? "" : ", ", trial, fits.error().message));
}

}  // namespace

std::vector<Point> expand(const std::vector<Axis>& axes) {
  std::vector<Point> points{Point{}};
  for (const Axis& axis : axes) {
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (std::size_t i = 0; i < axis.choices.size(); ++i) {
        longer.push_back(point);
        longer.back().choices.push_back(i);
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::string point_text(const Study& study, const Point& point) {
  std::string text;
  for (std::size_t axis = 0; axis < study.axes.size(); ++axis)
    text += fmt::format("{}{} = {}", axis == 0 ? "" : ", ", study.axes[axis].name,
                        study.axes[axis].choices[point.choices[axis]].label);
  return text;
}

const Variant& first_variant(const StudyPlan& plan, std::size_t point) {
  return *std::ranges::find(plan.variants, point, &Variant::point);
}

std::string trial_text(const Contender& contender, const Point& trial) {
  const auto last = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  std::string text;
  for (std::size_t i = 0; i < contender.search.size(); ++i) {
    const Axis& axis = contender.search[i];
    const auto alike = std::ranges::count_if(
        contender.search, [&](const Axis& other) { return last(other.name) == last(axis.name); });
    text += fmt::format("{}{} = {}", i == 0 ? "" : ", ", alike > 1 ? axis.name : last(axis.name),
                        axis.choices[trial.choices[i]].label);
  }
  return text;
}

bool searches(const Study& study) {
  return std::ranges::any_of(study.contenders,
                             [](const Contender& who) { return !who.search.empty(); });
}

Result<StudyPlan> make_plan(Study study, const cluster::ClusterSource& cluster) {
  // What is wrong with the file itself is said with its own lines.
  RUBATO_TRY(cluster::parse_cluster(cluster.text, cluster.file, cluster.catalog_text));
  StudyPlan plan;
  plan.study = std::move(study);
  plan.cluster_text = cluster.text;
  plan.points = expand(plan.study.axes);
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    for (std::size_t contender = 0; contender < plan.study.contenders.size(); ++contender) {
      for (Point& trial : expand(plan.study.contenders[contender].search)) {
        Variant variant{point, contender, std::move(trial), {}};
        RUBATO_TRY(configure(plan, cluster, variant));
        if (!plan.variants.empty() && variant.config.dataset.task != task_of(plan))
          return fail(ErrorCode::BadInput,
                      fmt::format("{}: dataset.task differs from run to run; a study compares runs "
                                  "of one task",
                                  plan.study.name));
        plan.variants.push_back(std::move(variant));
      }
    }
  }
  return plan;
}

Task task_of(const StudyPlan& plan) {
  return plan.variants.front().config.dataset.task;
}

bool has_target(const StudyPlan& plan) {
  return std::ranges::any_of(plan.variants, [](const Variant& variant) {
    return variant.config.stop.target_loss || variant.config.stop.target_accuracy;
  });
}

std::string run_key(const Variant& variant, const std::string& sync, std::uint64_t seed,
                    std::uint64_t data) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{:016x}\n", variant.config.effective, sync, seed, data);
  const auto add = [&text](double step, double jitter, const cluster::LinkModel& link) {
    text += fmt::format("{} {} {} {} {} {}\n", step, jitter, link.latency_seconds, link.jitter,
                        link.up_bytes_per_second, link.down_bytes_per_second);
  };
  // The catalog may have changed although the cluster file has not.
  for (const auto& group : variant.config.workers)
    add(group.device.step_seconds, group.device.jitter, group.link);
  add(0, 0, variant.config.servers.link);
  return fmt::format("{:016x}", fingerprint(text));
}

}  // namespace rubato::report
