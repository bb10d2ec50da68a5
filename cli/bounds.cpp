// `rubato bounds`: how near sync models come to what the cluster could do.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/run_data.hpp"
#include "cli/serial_runs.hpp"
#include "cli/variant_runs.hpp"
#include "cli/whatif/bounds.hpp"
#include "cli/whatif/changes.hpp"
#include "cli/whatif/forecast.hpp"
#include "cluster/cluster_changes.hpp"
#include "cluster/cluster_plan.hpp"
#include "report/comparison.hpp"
#include "report/table.hpp"
#include "report/times_html.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

std::string workers_text(const cluster::ClusterConfig& config) {
  return counted(static_cast<std::uint64_t>(config.worker_count()), "worker");
}

std::string share_text(double bound, double time) {
  return std::isfinite(time) ? percent_text(bound / time) : "-";
}

struct FoundBounds {
  SerialBounds of;
  std::string fastest;    // group of the fastest worker
  whatif::Forecast hero;  // it alone
  std::vector<whatif::Forecast> models;
};

// The models, and then the fastest worker alone.
Result<std::vector<Variant>> bounded_variants(const cluster::ClusterConfig& config,
                                              const std::vector<std::string>& models) {
  std::vector<Variant> variants;
  for (const std::string& model : models) {
    RUBATO_TRY(cluster::check_sync(config, model));
    variants.push_back({report::model_title(model), model, config});
  }
  Variant hero{"hero", sync::trained_model(), config};
  hero.config.workers = {*std::ranges::min_element(
      config.workers, {}, [](const auto& group) { return group.device.step_seconds; })};
  hero.config.workers.front().count = 1;
  hero.config.workers_min.reset();
  hero.config.churn.clear();
  variants.push_back(std::move(hero));
  return variants;
}

Result<FoundBounds> find_bounds(const cluster::ClusterConfig& config,
                                const std::vector<std::string>& models, const VariantOptions& how,
                                const std::stop_token& stop) {
  RUBATO_ASSIGN(const auto variants, bounded_variants(config, models));
  RunData data;
  FoundBounds found;
  RUBATO_ASSIGN(found.of, run_serial_bounds(config, models.front(), how, data, stop));
  RUBATO_ASSIGN(const auto records, run_variants(variants, how, data, stop));
  for (std::size_t i = 0; i < records.size(); ++i)
    found.models.push_back(whatif::forecast(variants[i].name, records[i]));
  found.fastest = variants.back().config.workers.front().name;
  found.hero = found.models.back();
  found.models.pop_back();
  return found;
}

void print_bounds_json(const cluster::ClusterConfig& config, const FoundBounds& found) {
  report::Json runs = report::Json::array();
  for (const Serial& each : found.of.serial)
    runs.push_back({{"batches", each.run.batches},
                    {"updates", each.run.updates},
                    {"learning_rate", each.rate * config.training.learning_rate}});
  report::Json all{
      {"linear_s", found.of.linear},           {"hero", whatif::forecast_json(found.hero)},
      {"t_opt_s", found.of.best.seconds},      {"best_batches", found.of.best.batches},
      {"useless", found.of.best.useless},      {"updates_least", found.of.updates.least},
      {"noise_scale", found.of.updates.noise}, {"serial", std::move(runs)},
      {"models", report::Json::array()}};
  for (const whatif::Forecast& row : found.models) {
    report::Json one = whatif::forecast_json(row);
    one["linear_share"] =
        std::isfinite(row.time) ? report::Json(found.of.linear / row.time) : report::Json(nullptr);
    all["models"].push_back(std::move(one));
  }
  print_json(json_text(all, 2));
}

std::vector<std::vector<std::string>> bounds_columns(const FoundBounds& found) {
  std::vector<std::vector<std::string>> columns{
      {"Model"}, {"To target"}, {"Of linear bound"}, {"Of hero"}, {"Of T_opt"}};
  for (const whatif::Forecast& row : found.models) {
    columns[0].push_back(row.name);
    columns[1].push_back(duration_or(row.time));
    columns[2].push_back(share_text(found.of.linear, row.time));
    columns[3].push_back(std::isfinite(found.hero.time) ? share_text(found.hero.time, row.time)
                                                        : "-");
    columns[4].push_back(share_text(found.of.best.seconds, row.time));
  }
  return columns;
}

std::string serial_text(const cluster::ClusterConfig& config, const FoundBounds& found) {
  std::string needed;
  for (const Serial& each : found.of.serial)
    needed += fmt::format("{}{} of {:.0f} samples (rate {:g})", needed.empty() ? "" : ", ",
                          count_text(each.run.updates), each.run.batches * config.training.batch,
                          each.rate * config.training.learning_rate);
  return fmt::format(
      "Serial updates to the target: {}. So at least {:.0f}, and the noise scale is {:.1f} "
      "mini-batches.",
      needed, found.of.updates.least, found.of.updates.noise);
}

// Empty: all are worth it.
std::string useless_text(const cluster::ClusterConfig& config, const FoundBounds& found) {
  if (found.of.best.useless.empty()) return {};
  return fmt::format(
      "Not worth their energy there: {} of {}, which make no whole step for such an update: {}.",
      found.of.best.useless.size(), workers_text(config), fmt::join(found.of.best.useless, ", "));
}

void print_bounds(const cluster::ClusterConfig& config, const FoundBounds& found, int seeds) {
  const std::size_t width = text_columns(stdout);
  print_text("{}: {}, {}, virtual time\n\n", config.name, workers_text(config),
             counted(static_cast<std::uint64_t>(seeds), "seed"));
  print_text("{}\n", wrapped(serial_text(config, found), width));
  print_text("Linear bound: {}, serial gradients at the whole cluster's speed\n",
             duration_text(found.of.linear));
  print_text("Hero:         {}, {} alone\n", duration_or(found.hero.time), found.fastest);
  print_text("T_opt:        {}, synchronous gradients at one point, {} an update\n",
             duration_text(found.of.best.seconds), counted(found.of.best.batches, "mini-batch"));
  if (const std::string useless = useless_text(config, found); !useless.empty())
    print_text("{}\n", wrapped(useless, width));
  print_text("\n{}\n", report::aligned(bounds_columns(found), width));
}

report::TimesPage bounds_page(const cluster::ClusterConfig& config, const FoundBounds& found,
                              const BoundsRun& options) {
  using Kind = report::TimesRow::Kind;
  report::TimesPage page;
  page.title = "How far from the best";
  page.cluster = config.name;
  page.command = options.command;
  page.facts = {workers_text(config),
                "target: " + targets_text(config.stop.target_loss, config.stop.target_accuracy,
                                          config.stop.class_targets, config.dataset.task),
                counted(static_cast<std::uint64_t>(options.seeds), "seed"), "virtual time"};
  const auto& best =
      *std::ranges::min_element(found.models, {}, [](const auto& row) { return row.time; });
  page.headline = std::isfinite(best.time)
                      ? fmt::format("{} reaches {} of the linear bound, the most.", best.name,
                                    share_text(found.of.linear, best.time))
                      : "No model reaches the target.";
  const auto columns = bounds_columns(found);
  for (const auto& column : columns) page.header.push_back(column.front());
  const auto add_bound = [&](const char* name, double time, const std::string& shown) {
    page.rows.push_back({.name = name, .kind = Kind::Bound, .time = time, .low = 0, .high = 0});
    page.rows.back().cells = {shown, "", "", ""};
  };
  add_bound("Linear bound", found.of.linear, duration_text(found.of.linear));
  add_bound("T_opt", found.of.best.seconds, duration_text(found.of.best.seconds));
  page.rows.push_back(whatif::times_row(found.hero, Kind::Reference));
  page.rows.back().name = found.fastest + " alone";
  page.rows.back().cells = {duration_or(found.hero.time),
                            share_text(found.of.linear, found.hero.time), "",
                            share_text(found.of.best.seconds, found.hero.time)};
  for (std::size_t i = 0; i < found.models.size(); ++i) {
    page.rows.push_back(whatif::times_row(found.models[i], Kind::Change));
    for (std::size_t c = 1; c < columns.size(); ++c)
      page.rows.back().cells.push_back(columns[c][i + 1]);
  }
  page.notes = {
      "Linear bound: serial gradients at the whole cluster's speed.",
      fmt::format("T_opt: the best that synchronous gradients at one point can do, {} an update. "
                  "Asynchrony and local steps are outside its model.",
                  counted(found.of.best.batches, "mini-batch")),
      serial_text(config, found)};
  if (std::string useless = useless_text(config, found); !useless.empty())
    page.notes.push_back(std::move(useless));
  return page;
}

Result<void> bounds_checked(const BoundsRun& options, const std::stop_token& stop) {
  set_log_quiet(options.quiet);
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  if (options.target_loss) config.stop.target_loss = options.target_loss;
  RUBATO_TRY(require_bounds(config));
  RUBATO_TRY(cluster::require_step_times(config));
  const auto models = options.sync.empty() ? sync::compared_models() : options.sync;
  RUBATO_ASSIGN(
      const FoundBounds found,
      find_bounds(config, models,
                  {.seeds = options.seeds, .threads = options.threads, .quiet = options.quiet},
                  stop));
  if (options.json)
    print_bounds_json(config, found);
  else
    print_bounds(config, found, options.seeds);
  if (options.html.empty()) return {};
  return write_file(options.html, report::times_html(bounds_page(config, found, options)));
}

}  // namespace

int bounds(const BoundsRun& options, std::stop_token stop) {
  return exit_code(bounds_checked(options, stop));
}

}  // namespace rubato::cli
