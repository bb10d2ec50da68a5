#include "cli/whatif/replayed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "base/text.hpp"
#include "report/comparison.hpp"
#include "report/table.hpp"

namespace rubato::cli::whatif {
namespace {

constexpr const char* kTime = "time to the target";

// All lives of one name together.
struct Totals {
  double steps = 0, commits = 0, compute = 0, wait = 0, communicate = 0;
};

Totals totals_of(const RunRecord& run, const std::string& worker) {
  Totals sum;
  for (const WorkerRecord& life : run.workers) {
    if (!worker.empty() && life.id != worker) continue;
    sum.steps += static_cast<double>(life.steps);
    sum.commits += static_cast<double>(life.commits);
    sum.compute += life.compute.seconds();
    sum.wait += life.wait.seconds();
    sum.communicate += life.communicate.seconds();
  }
  const double all = sum.compute + sum.wait + sum.communicate;
  if (all > 0)
    for (double* const share : {&sum.compute, &sum.wait, &sum.communicate}) *share /= all;
  return sum;
}

ReplayedWorker beside(const RunRecord& measured, const std::vector<RunRecord>& same,
                      const std::string& worker) {
  const Totals real = totals_of(measured, worker);
  std::vector<Totals> played;
  for (const RunRecord& run : same) played.push_back(totals_of(run, worker));
  const auto figure = [&](const char* name, double Totals::*value, bool share) {
    Figure f{fmt::format("{} of {}", name, worker.empty() ? "all workers" : worker),
             real.*value,
             0,
             share,
             played.front().*value,
             played.front().*value};
    for (const Totals& each : played) {
      f.replayed += each.*value / static_cast<double>(played.size());
      f.least = std::min(f.least, each.*value);
      f.most = std::max(f.most, each.*value);
    }
    return f;
  };
  return {worker,
          figure("steps", &Totals::steps, false),
          figure("commits", &Totals::commits, false),
          figure("share of computing", &Totals::compute, true),
          figure("share of waiting", &Totals::wait, true),
          figure("share of communicating", &Totals::communicate, true)};
}

std::array<const Figure*, 5> figures_of(const ReplayedWorker& worker) {
  return {&worker.steps, &worker.commits, &worker.compute, &worker.wait, &worker.communicate};
}

std::string figure_cell(const Figure& figure, double value) {
  return figure.share ? percent_text(value) : count_text(value);
}

report::Json figure_json(const Figure& figure) {
  using report::number_json;
  return {{"measured", number_json(figure.measured)},
          {"replayed", number_json(figure.replayed)},
          {"range", {number_json(figure.least), number_json(figure.most)}},
          {"off", number_json(figure.off())}};
}

report::Json worker_figures_json(const ReplayedWorker& worker) {
  return {{"steps", figure_json(worker.steps)},
          {"commits", figure_json(worker.commits)},
          {"compute_share", figure_json(worker.compute)},
          {"wait_share", figure_json(worker.wait)},
          {"communicate_share", figure_json(worker.communicate)}};
}

}  // namespace

double Figure::off() const {
  if (share) return std::abs(replayed - measured);
  if (measured == replayed) return 0;
  return measured > 0 ? std::abs(replayed / measured - 1) : std::numeric_limits<double>::infinity();
}

bool Figure::usual() const {
  constexpr double kBeyond = 0.01;
  const double slack = share ? kBeyond : kBeyond * measured;
  return measured >= least - slack && measured <= most + slack;
}

Replayed replayed(const RunRecord& measured, const std::vector<RunRecord>& same,
                  const std::vector<RunRecord>& to_target) {
  RUBATO_CHECK(!same.empty(), "something was replayed");
  Replayed all;
  all.sync = measured.sync;
  all.seed = measured.seed;
  all.runs = same.size();
  all.seconds = measured.seconds;
  for (const WorkerRecord& worker : measured.workers)
    if (std::ranges::find(all.workers, worker.id, &ReplayedWorker::worker) == all.workers.end())
      all.workers.push_back(beside(measured, same, worker.id));
  all.all = beside(measured, same, {});
  std::vector<const std::vector<PathPart>*> paths;
  for (const RunRecord& run : same)
    if (!run.path.empty()) paths.push_back(&run.path);
  all.path = mean_path(paths);
  const auto& decisions = same.front().decisions;
  const auto [decided, otherwise] = std::ranges::mismatch(
      measured.decisions, decisions, {}, &DecisionRecord::value, &DecisionRecord::value);
  if (decided != measured.decisions.end() && otherwise != decisions.end()) {
    all.decided = *decided;
    all.decided_otherwise = *otherwise;
  }
  if (!measured.time_to_target_seconds || to_target.empty()) return all;
  std::vector<double> times;
  for (const RunRecord& run : to_target)
    times.push_back(run.time_to_target_seconds.value_or(std::numeric_limits<double>::infinity()));
  all.time = {kTime, *measured.time_to_target_seconds, report::median(times),
              false, *std::ranges::min_element(times), *std::ranges::max_element(times)};
  return all;
}

Figure worst(const Replayed& all) {
  const Figure* most = &all.all.steps;
  const auto see = [&most](const Figure& figure) {
    const bool unusual = !figure.usual();
    if (unusual != !most->usual() ? unusual : figure.off() > most->off()) most = &figure;
  };
  for (const ReplayedWorker& worker : all.workers)
    for (const Figure* figure : figures_of(worker)) see(*figure);
  for (const Figure* figure : figures_of(all.all)) see(*figure);
  if (all.time) see(*all.time);
  return *most;
}

std::string replayed_table(const Replayed& all, std::size_t width) {
  constexpr std::array kNames{"Steps", "Commits", "Compute", "Wait", "Comm."};
  std::vector<std::vector<std::string>> columns{{"Worker"}};
  for (const char* name : kNames) {
    columns.push_back({name});
    columns.push_back({"replayed"});
  }
  const auto add = [&](const std::string& title, const ReplayedWorker& worker) {
    columns[0].push_back(title);
    std::size_t column = 1;
    for (const Figure* figure : figures_of(worker)) {
      columns[column++].push_back(figure_cell(*figure, figure->measured));
      columns[column++].push_back(figure_cell(*figure, figure->replayed));
    }
  };
  for (const ReplayedWorker& worker : all.workers) add(worker.worker, worker);
  add("all", all.all);
  return report::aligned(columns, width);
}

std::string time_text(const Replayed& all) {
  if (!all.time) return {};
  const auto text = [](double seconds) { return duration_or(seconds, "never"); };
  return fmt::format("Time to the target: measured {}, replayed {} ({} to {})",
                     text(all.time->measured), text(all.time->replayed), text(all.time->least),
                     text(all.time->most));
}

std::string worst_text(const Replayed& all) {
  const Figure figure = worst(all);
  const auto text = [&](double value) {
    if (!std::isfinite(value)) return std::string("never");
    return figure.name == kTime ? duration_text(value) : figure_cell(figure, value);
  };
  const std::string off = figure.share ? fmt::format("{:.1f} points", 100 * figure.off())
                          : std::isfinite(figure.off())
                              ? fmt::format("{:.1f} %", 100 * figure.off())
                              : std::string("wholly");
  return fmt::format("Explained worst: {}, measured {}, replayed {}, {} off{}.", figure.name,
                     text(figure.measured), text(figure.replayed), off,
                     figure.usual() ? ", within the seeds' range" : "");
}

std::string path_line(const Replayed& all) {
  return fmt::format("Where the time goes: {}.", path_text(all.path));
}

std::string decision_text(const Replayed& all) {
  if (!all.decided) return {};
  return fmt::format("First other decision: {} {:g} ({}), replayed {:g} ({}).",
                     all.decided->quantity, all.decided->value, all.decided->reason,
                     all.decided_otherwise->value, all.decided_otherwise->reason);
}

report::Json replayed_json(const Replayed& all) {
  report::Json workers = report::Json::object();
  for (const ReplayedWorker& worker : all.workers)
    workers[worker.worker] = worker_figures_json(worker);
  report::Json json{{"sync", all.sync},
                    {"seed", all.seed},
                    {"seconds", all.seconds},
                    {"runs", all.runs},
                    {"all", worker_figures_json(all.all)},
                    {"workers", std::move(workers)},
                    {"worst", worst(all).name},
                    {"worst_off", worst(all).off()}};
  if (!all.path.empty()) json["path"] = report::path_json(all.path);
  json["time_to_target_s"] = all.time ? figure_json(*all.time) : report::Json(nullptr);
  return json;
}

}  // namespace rubato::cli::whatif
