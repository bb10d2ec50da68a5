// `rubato bounds`: how near sync models come to what the cluster could do.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/run_data.hpp"
#include "cli/variant_runs.hpp"
#include "cli/whatif/bounds.hpp"
#include "cli/whatif/changes.hpp"
#include "cli/whatif/forecast.hpp"
#include "cluster/cluster_changes.hpp"
#include "cluster/cluster_plan.hpp"
#include "report/comparison.hpp"
#include "report/table.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

// Serial runs: mini-batches of an update, and learning rates as multiples of the file's.
constexpr int kBatches[] = {1, 4, 16};
constexpr double kRates[] = {1, 2, 4, 8, 16};
constexpr std::uint64_t kSerialUpdatesMax = 20'000;
constexpr double kEvaluationsOfSerial = 100;  // about so many, at the file's rate

// How serial runs end, and how often they are evaluated.
struct SerialLimits {
  std::uint64_t updates_max = kSerialUpdatesMax;
  double updates_per_evaluation = 5;
};

// One worker with all data and no link, whose step takes a second. Under BSP it is plain SGD.
Variant serial_variant(const cluster::ClusterConfig& config, int batches, double rate,
                       const SerialLimits& limits) {
  Variant variant{fmt::format("serial, batch {}, rate {:g}", batches * config.training.batch,
                              rate * config.training.learning_rate),
                  sync::baseline_model(), config};
  cluster::ClusterConfig& alone = variant.config;
  alone.workers = {{.name = "serial", .device = {.step_seconds = 1}, .link = {}}};
  alone.workers_min.reset();
  alone.churn.clear();
  alone.servers = {};
  alone.optimizer = {};
  alone.partition = {};
  alone.evaluation.interval_seconds = limits.updates_per_evaluation;
  alone.evaluation.average = false;
  alone.training.batch *= batches;
  alone.training.learning_rate *= rate;
  alone.stop.max_steps = limits.updates_max;
  alone.stop.max_seconds.reset();
  return variant;
}

// Updates to the target, the median of all seeds; infinite where it was missed.
double updates_of(const std::vector<RunRecord>& runs) {
  std::vector<double> updates;
  for (const RunRecord& run : runs)
    updates.push_back(run.time_to_target_seconds.value_or(std::numeric_limits<double>::infinity()));
  return report::median(updates);
}

struct Serial {
  whatif::SerialRun run;
  double rate = 1;  // of the fewest updates, in the file's
};

// Each size of update, at the rate that needs fewest.
Result<std::vector<Serial>> run_serial(const cluster::ClusterConfig& config,
                                       const VariantOptions& options, RunData& data,
                                       const std::stop_token& stop) {
  // The first run says how far it is at most, so that rates that fail do not take long.
  RUBATO_ASSIGN(const auto first,
                run_variants({serial_variant(config, 1, 1, {})}, options, data, stop));
  const double most = updates_of(first[0]);
  if (!std::isfinite(most))
    return fail(ErrorCode::BadInput,
                fmt::format("{}: serial training misses the target in {} steps, so there are no "
                            "bounds; give a target that it reaches",
                            config.file, with_commas(kSerialUpdatesMax)));
  const SerialLimits limits{static_cast<std::uint64_t>(2 * most),
                            std::max(1.0, std::floor(most / kEvaluationsOfSerial))};
  std::vector<Variant> variants;
  for (const int batches : kBatches)
    for (const double rate : kRates)
      variants.push_back(serial_variant(config, batches, rate, limits));
  RUBATO_ASSIGN(const auto runs, run_variants(variants, options, data, stop));
  std::vector<Serial> serial;
  std::size_t at = 0;
  for (const int batches : kBatches) {
    Serial best{{static_cast<double>(batches), std::numeric_limits<double>::infinity()}};
    for (const double rate : kRates) {
      const double updates = updates_of(runs[at++]);
      if (updates < best.run.updates) best = {{static_cast<double>(batches), updates}, rate};
    }
    if (!std::isfinite(best.run.updates))
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: serial training with {} times the mini-batch misses the target",
                              config.file, batches));
    serial.push_back(best);
  }
  return serial;
}

std::string share_text(double bound, double time) {
  return std::isfinite(time) ? percent_text(bound / time) : "-";
}

Result<void> require_bounds(const cluster::ClusterConfig& config) {
  const bool target = config.stop.target_loss || config.stop.target_accuracy;
  if (!target)
    return fail(ErrorCode::BadInput, fmt::format("{}: has no target to bound the time to; give "
                                                 "--target-loss or stop.target_loss",
                                                 config.file));
  if (config.timing_only() || config.described())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: bounds need a model and data of ours, in one place, to train on "
                            "serially",
                            config.file));
  return {};
}

Result<void> bounds_checked(const BoundsRun& options, const std::stop_token& stop) {
  set_log_quiet(options.quiet);
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  if (options.target_loss) config.stop.target_loss = options.target_loss;
  RUBATO_TRY(require_bounds(config));
  RUBATO_TRY(cluster::require_step_times(config));
  std::vector<std::string> models = options.sync;
  if (models.empty()) models = sync::compared_models();
  std::vector<Variant> variants;
  for (const std::string& model : models) {
    RUBATO_TRY(cluster::check_sync(config, model));
    variants.push_back({report::model_title(model), model, config});
  }
  const auto fastest = std::ranges::min_element(
      config.workers, {}, [](const auto& group) { return group.device.step_seconds; });
  Variant hero{"hero", sync::trained_model(), config};
  hero.config.workers = {*fastest};
  hero.config.workers.front().count = 1;
  hero.config.workers_min.reset();
  hero.config.churn.clear();
  variants.push_back(std::move(hero));

  RunData data;
  const VariantOptions how{
      .seeds = options.seeds, .threads = options.threads, .quiet = options.quiet};
  RUBATO_ASSIGN(const std::vector<Serial> serial, run_serial(config, how, data, stop));
  RUBATO_ASSIGN(const auto records, run_variants(variants, how, data, stop));
  RUBATO_ASSIGN(const LoadedData* loaded, data.of(config));
  RUBATO_ASSIGN(const auto plan,
                cluster::make_plan(config, models.front(), config.seed, loaded->split.train.shape,
                                   loaded->split.train.classes));
  const auto speeds = whatif::worker_speeds(config, plan.parameters);
  std::vector<whatif::SerialRun> sizes;
  for (const Serial& each : serial) sizes.push_back(each.run);
  const whatif::UpdatesNeeded updates = whatif::fit_updates(sizes);
  const double linear = whatif::linear_bound(sizes.front().updates, speeds);
  const whatif::BestGather best = whatif::best_gather(updates, speeds);
  std::vector<whatif::Forecast> rows;
  for (std::size_t i = 0; i < records.size(); ++i)
    rows.push_back(whatif::forecast(variants[i].name, records[i]));
  const whatif::Forecast alone = rows.back();
  rows.pop_back();

  if (options.json) {
    report::Json runs = report::Json::array();
    for (const Serial& each : serial)
      runs.push_back({{"batches", each.run.batches},
                      {"updates", each.run.updates},
                      {"learning_rate", each.rate * config.training.learning_rate}});
    report::Json all{{"linear_s", linear},
                     {"hero", whatif::forecast_json(alone)},
                     {"t_opt_s", best.seconds},
                     {"best_batches", best.batches},
                     {"useless", best.useless},
                     {"updates_least", updates.least},
                     {"noise_scale", updates.noise},
                     {"serial", std::move(runs)},
                     {"models", report::Json::array()}};
    for (const whatif::Forecast& row : rows) {
      report::Json one = whatif::forecast_json(row);
      one["linear_share"] =
          std::isfinite(row.time) ? report::Json(linear / row.time) : report::Json(nullptr);
      all["models"].push_back(std::move(one));
    }
    fmt::print("{}\n", all.dump(2));
    return {};
  }
  const std::size_t width = text_columns(stdout);
  std::string needed;
  for (const Serial& each : serial)
    needed += fmt::format("{}{} of {:.0f} samples (rate {:g})", needed.empty() ? "" : ", ",
                          count_text(each.run.updates), each.run.batches * config.training.batch,
                          each.rate * config.training.learning_rate);
  fmt::print("{}: {}, {}, virtual time\n\n", config.name,
             counted(static_cast<std::uint64_t>(config.worker_count()), "worker"),
             counted(static_cast<std::uint64_t>(options.seeds), "seed"));
  fmt::print("{}\n",
             wrapped(fmt::format("Serial updates to the target: {}. So at least {:.0f}, and "
                                 "the noise scale is {:.1f} mini-batches.",
                                 needed, updates.least, updates.noise),
                     width));
  fmt::print("Linear bound: {}, serial gradients at the whole cluster's speed\n",
             duration_text(linear));
  fmt::print("Hero:         {}, {} alone\n",
             std::isfinite(alone.time) ? duration_text(alone.time) : "never", fastest->name);
  fmt::print("T_opt:        {}, synchronous gradients at one point, {} an update\n",
             duration_text(best.seconds), counted(best.batches, "mini-batch"));
  if (!best.useless.empty())
    fmt::print("{}\n", wrapped(fmt::format("Not worth their energy there: {} of {}, which make no "
                                           "whole step for such an update: {}.",
                                           best.useless.size(), counted(speeds.size(), "worker"),
                                           fmt::join(best.useless, ", ")),
                               width));
  std::vector<std::vector<std::string>> columns{
      {"Model"}, {"To target"}, {"Of linear bound"}, {"Of hero"}, {"Of T_opt"}};
  for (const whatif::Forecast& row : rows) {
    columns[0].push_back(row.name);
    columns[1].push_back(std::isfinite(row.time) ? duration_text(row.time) : "not reached");
    columns[2].push_back(share_text(linear, row.time));
    columns[3].push_back(std::isfinite(alone.time) ? share_text(alone.time, row.time) : "-");
    columns[4].push_back(share_text(best.seconds, row.time));
  }
  fmt::print("\n{}\n", report::aligned(columns, width));
  return {};
}

}  // namespace

int bounds(const BoundsRun& options, std::stop_token stop) {
  return exit_code(bounds_checked(options, stop));
}

}  // namespace rubato::cli
