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
#include "cli/serial_runs.hpp"
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

// Mini-batches of an update in the serial runs.
const std::vector<int> kBatches{1, 4, 16};

std::string share_text(double bound, double time) {
  return std::isfinite(time) ? percent_text(bound / time) : "-";
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
  RUBATO_ASSIGN(const std::vector<Serial> serial, run_serial(config, kBatches, how, data, stop));
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
