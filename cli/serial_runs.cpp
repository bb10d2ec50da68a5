#include "cli/serial_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/text.hpp"
#include "base/words.hpp"
#include "cluster/cluster_changes.hpp"
#include "cluster/cluster_plan.hpp"
#include "report/comparison.hpp"
#include "sync/factory.hpp"

namespace rubato::cli {
namespace {

// Learning rates that are tried, as multiples of the file's.
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

// An entry for each of `sizes`, the mini-batches of an update.
Result<std::vector<Serial>> run_serial(const cluster::ClusterConfig& config,
                                       const std::vector<int>& sizes, const VariantOptions& options,
                                       RunData& data, const std::stop_token& stop) {
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
  for (const int batches : sizes)
    for (const double rate : kRates)
      variants.push_back(serial_variant(config, batches, rate, limits));
  RUBATO_ASSIGN(const auto runs, run_variants(variants, options, data, stop));
  std::vector<Serial> serial;
  std::size_t at = 0;
  for (const int batches : sizes) {
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

}  // namespace

Result<void> require_bounds(const cluster::ClusterConfig& config) {
  const bool target =
      config.stop.target_loss || config.stop.target_accuracy || config.stop.class_targets.any();
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

Result<SerialBounds> run_serial_bounds(const cluster::ClusterConfig& config,
                                       const std::string& sync, const VariantOptions& options,
                                       RunData& data, const std::stop_token& stop) {
  SerialBounds bounds;
  RUBATO_ASSIGN(bounds.serial, run_serial(config, {1, 4, 16}, options, data, stop));
  RUBATO_ASSIGN(const LoadedData* loaded, data.of(config));
  RUBATO_ASSIGN(const auto plan,
                cluster::make_plan(config, sync, config.seed, loaded->split.train.shape,
                                   loaded->split.train.classes));
  const auto speeds = whatif::worker_speeds(config, plan.parameters);
  std::vector<whatif::SerialRun> sizes;
  for (const Serial& each : bounds.serial) sizes.push_back(each.run);
  bounds.updates = whatif::fit_updates(sizes);
  bounds.linear = whatif::linear_bound(sizes.front().updates, speeds);
  bounds.best = whatif::best_gather(bounds.updates, speeds);
  return bounds;
}

Result<double> run_linear_bound(const cluster::ClusterConfig& config, const VariantOptions& options,
                                RunData& data, const std::stop_token& stop) {
  RUBATO_ASSIGN(const auto serial, run_serial(config, {1}, options, data, stop));
  return whatif::linear_bound(serial.front().run.updates, whatif::worker_speeds(config, 0));
}

}  // namespace rubato::cli
