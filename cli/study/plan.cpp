#include "cli/study/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/study/fingerprint.hpp"
#include "emulation/cluster_plan.hpp"

namespace rubato::cli {
namespace {

std::vector<Setting> settings_of(const Study& study, const Point& point,
                                 const Contender& contender) {
  std::vector<Setting> all = study.settings;
  for (std::size_t axis = 0; axis < study.axes.size(); ++axis) {
    const auto& chosen = study.axes[axis].choices[point.choices[axis]].settings;
    all.insert(all.end(), chosen.begin(), chosen.end());
  }
  all.insert(all.end(), contender.settings.begin(), contender.settings.end());
  return all;
}

std::string where(const Study& study, const Point& point, const Contender& contender) {
  const std::string grid = point_text(study, point);
  return fmt::format("{}: {}{}{}", study.file, grid, grid.empty() ? "" : ", ", contender.name);
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

Result<StudyPlan> make_plan(Study study, const emulation::ClusterSource& cluster) {
  // What is wrong with the file itself is said with its own lines.
  RUBATO_TRY(emulation::parse_cluster(cluster.text, cluster.file, cluster.catalog_text));
  StudyPlan plan;
  plan.study = std::move(study);
  plan.cluster_text = cluster.text;
  plan.points = expand(plan.study.axes);
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    for (std::size_t contender = 0; contender < plan.study.contenders.size(); ++contender) {
      const Contender& who = plan.study.contenders[contender];
      auto config = emulation::parse_cluster(cluster.text, cluster.file, cluster.catalog_text,
                                             settings_of(plan.study, plan.points[point], who));
      const Result<void> fits = config ? emulation::check_sync(*config, who.sync)
                                       : Result<void>(tl::unexpected<Error>(config.error()));
      if (!fits)
        return fail(fits.error().code,
                    fmt::format("{}: {}", where(plan.study, plan.points[point], who),
                                fits.error().message));
      plan.variants.push_back({point, contender, std::move(*config)});
    }
  }
  return plan;
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
  const auto add = [&text](double step, double jitter, const emulation::LinkModel& link) {
    text += fmt::format("{} {} {} {} {} {}\n", step, jitter, link.latency_seconds, link.jitter,
                        link.up_bytes_per_second, link.down_bytes_per_second);
  };
  // The catalog may have changed although the cluster file has not.
  for (const auto& group : variant.config.workers)
    add(group.device.step_seconds, group.device.jitter, group.link);
  add(0, 0, variant.config.servers.link);
  return fmt::format("{:016x}", fingerprint(text));
}

}  // namespace rubato::cli
