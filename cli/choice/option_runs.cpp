#include "cli/choice/option_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/data_facts.hpp"
#include "cluster/device_catalog.hpp"
#include "cluster/perturbed.hpp"
#include "emulation/virtual_cluster.hpp"
#include "report/findings.hpp"
#include "report/study/cell_result.hpp"
#include "report/study/runner.hpp"

namespace rubato::cli {
namespace {

// What a core is assumed to do (docs/choose.md): figures for every machine, so that all choose
// alike.
constexpr double kFlopsPerSecond = 6e9;
constexpr double kSecondsPerStep = 15e-6;  // of a commit and the decisions that go with it
constexpr double kSecondsPerByte = 0.5e-9;
constexpr std::size_t kFinalists = 6;
constexpr std::size_t kClustersOff = 8;
constexpr std::size_t kSeedsOff = 3;
constexpr double kOwnStepSeconds = 5e-3;  // of a loop of which nobody knows the model

Halving::Result result_of(const report::CellResult& cell, const cluster::ClusterConfig& config,
                          const RunCost& cost) {
  Halving::Result result;
  result.time_to_target = cell.time_to_target;
  if (!cell.diverged && cell.measured()) result.loss = cell.curve.back().mean_loss;
  const double evaluations = cell.seconds / config.evaluation.interval_seconds;
  result.cost = static_cast<double>(cell.steps) * cost.step + evaluations * cost.evaluation +
                static_cast<double>(cell.bytes_up + cell.bytes_down) * cost.byte;
  return result;
}

}  // namespace

Result<OptionRuns> OptionRuns::make(const cluster::ClusterSource& source,
                                    const std::function<void(cluster::ClusterConfig&)>& edit,
                                    const train::DataSplit& data,
                                    std::shared_ptr<emulation::LoopLauncher> loops) {
  const auto parse = [&](const std::vector<Setting>& settings) -> Result<cluster::ClusterConfig> {
    RUBATO_ASSIGN(auto config,
                  cluster::parse_cluster(source.text, source.file, source.catalog_text, settings));
    edit(config);
    return config;
  };
  OptionRuns runs(data, std::move(loops));
  RUBATO_ASSIGN(const auto base, parse({}));
  std::vector<std::optional<std::size_t>> places;  // of what is tried, among those that can be
  for (Tried& tried : tried_options(base)) {
    places.emplace_back();
    if (tried.variant_of && !places[*tried.variant_of]) continue;
    auto config = parse(tried.settings);
    auto fits = config ? cluster::check_sync(*config, tried.sync)
                       : Result<void>(tl::unexpected<Error>(config.error()));
    if (!fits) {
      log_info(fmt::format("{} is not tried: {}", tried.text, fits.error().message));
      continue;
    }
    places.back() = runs.options_.size();
    if (tried.variant_of) tried.variant_of = places[*tried.variant_of];
    runs.options_.push_back(std::move(tried));
    runs.configs_.push_back(std::move(*config));
  }
  if (runs.options_.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: no sync model fits it", source.file));
  RUBATO_TRY(runs.find_cost());
  return runs;
}

Result<void> OptionRuns::find_cost() {
  const cluster::ClusterConfig& config = configs_.front();
  cost_ = {kOwnStepSeconds, kOwnStepSeconds, kSecondsPerByte};
  if (config.own_model()) return {};
  const train::Dataset& train = data_->train;
  RUBATO_ASSIGN(const auto plan, cluster::make_plan(config, options_.front().sync, config.seed,
                                                    train.shape, train.classes));
  const double sample = cluster::training_flops(plan.spec, 1) / kFlopsPerSecond;
  const auto held_out = static_cast<double>(data_->held_out.size());
  const double measured = config.evaluation.samples > 0
                              ? std::min<double>(config.evaluation.samples, held_out)
                              : held_out;
  cost_.step = kSecondsPerStep + sample * config.training.batch;
  cost_.evaluation = kSecondsPerStep + measured * sample / 3;
  return {};
}

double OptionRuns::cost_per_second() const {
  const cluster::ClusterConfig& config = configs_.front();
  double all = cost_.evaluation / config.evaluation.interval_seconds;
  for (const auto& group : config.workers)
    all += group.count * cost_.step / group.device.step_seconds;
  return all;
}

Result<std::vector<Halving::Result>> OptionRuns::run(
    const std::vector<Halving::Trial>& trials, std::uint64_t seed, int threads,
    const std::stop_token& stop,
    const std::function<cluster::ClusterConfig(cluster::ClusterConfig)>& change) const {
  std::vector<Halving::Result> results(trials.size());
  std::vector<std::optional<Error>> failures(trials.size());  // each written by its own run
  const auto outputs = cluster::outputs_of(*data_);
  const auto config_of = [&](std::size_t job) {
    cluster::ClusterConfig config = configs_[trials[job].option];
    if (change) config = change(std::move(config));
    config.stop.max_seconds = trials[job].seconds;
    return config;
  };
  RUBATO_TRY(report::run_jobs(
      trials.size(), threads, stop,
      [&](std::size_t job, const std::stop_token& token) -> Result<report::CellResult> {
        const cluster::ClusterConfig config = config_of(job);
        emulation::VirtualOptions options;
        options.sync = options_[trials[job].option].sync;
        options.seed = seed + trials[job].seed;
        options.loops = loops_;
        options.stop = token;
        auto record = run_virtual(config, *data_, options);
        if (!record && loops_ && record.error().code != ErrorCode::Stopped) {
          failures[job] = record.error();
          report::CellResult failed;
          failed.diverged = true;
          return failed;
        }
        if (!record) return tl::unexpected<Error>(record.error());
        record->findings = report::run_findings(config, *record, {.outputs = outputs});
        return report::cell_result(*record, 0);
      },
      [&](std::size_t job, const report::CellResult& cell) -> Result<void> {
        results[job] = result_of(cell, configs_[trials[job].option], cost_);
        return {};
      }));
  // A loop need not obey all sync models, but it has to run.
  const auto failed = [](const auto& failure) { return failure.has_value(); };
  if (!failures.empty() && std::ranges::all_of(failures, failed))
    return tl::unexpected<Error>(*failures.front());
  return results;
}

Result<Halving> make_search(const OptionRuns& runs, double budget) {
  const cluster::ClusterConfig& config = runs.config(0);
  std::vector<std::optional<std::size_t>> variant_of;
  for (const Tried& tried : runs.options()) variant_of.push_back(tried.variant_of);
  const auto plain =
      static_cast<double>(std::ranges::count(variant_of, std::optional<std::size_t>()));
  const double least = kEvaluationsFirst * config.evaluation.interval_seconds;
  // The search leaves options out once it has spent more than this part.
  const double needed = plain * runs.cost_per_second() * least / Halving::kProbesOfAll;
  if (needed > budget) {
    const double minutes = needed / (60 * kUsualCores * kBudgetOfSearch);
    return fail(
        ErrorCode::BadInput,
        fmt::format("--minutes: to try {:.0f} options for {} each, the time of {:.0f} "
                    "evaluations, and then the best of them takes {:g} minutes or more",
                    plain, duration_text(least), kEvaluationsFirst, std::ceil(10 * minutes) / 10));
  }
  // A target that comes early costs little that way.
  return Halving(
      std::move(variant_of),
      {.first_seconds = least, .last_seconds = *config.stop.max_seconds, .budget = budget});
}

Result<void> search(const OptionRuns& runs, Halving& halving, std::uint64_t seed, int threads,
                    const std::stop_token& stop,
                    const std::function<void(const std::vector<Halving::Trial>&)>& round) {
  for (auto trials = halving.next(); !trials.empty(); trials = halving.next()) {
    if (round) round(trials);
    RUBATO_ASSIGN(const auto results, runs.run(trials, seed, threads, stop));
    halving.add(results);
  }
  return {};
}

Result<Wrong> wrong_clusters(const OptionRuns& runs, const std::vector<Halving::Place>& ranking,
                             double budget, std::uint64_t seed, int threads,
                             const std::stop_token& stop) {
  Wrong wrong;
  for (const Halving::Place& place : ranking)
    if (std::isfinite(place.time) && wrong.options.size() < kFinalists &&
        place.times.size() >= ranking.front().times.size())
      wrong.options.push_back(place.option);
  // The slowest speeds and links, and some more.
  const double seconds = std::min(3 * ranking.front().time, *runs.config(0).stop.max_seconds);
  const double each = runs.cost_per_second() * ranking.front().time * kSeedsOff *
                      static_cast<double>(wrong.options.size());
  const auto clusters =
      static_cast<std::size_t>(std::clamp(budget / each, 0.0, static_cast<double>(kClustersOff)));
  if (clusters < 2 || wrong.options.size() < 2) return Wrong{};
  wrong.losses.resize(wrong.options.size());
  for (std::size_t number = 0; number < clusters; ++number) {
    std::vector<Halving::Trial> trials;
    for (const std::size_t option : wrong.options)
      for (std::size_t s = 0; s < kSeedsOff; ++s)
        trials.push_back({option, Halving::kSeedsMax + number * kSeedsOff + s, seconds});
    RUBATO_ASSIGN(const auto results,
                  runs.run(trials, seed, threads, stop, [&](cluster::ClusterConfig config) {
                    return cluster::perturbed(std::move(config), kOff, seed + number);
                  }));
    std::vector<double> typical;
    for (std::size_t i = 0; i < wrong.options.size(); ++i) {
      std::vector<double> times;
      for (std::size_t s = 0; s < kSeedsOff; ++s)
        times.push_back(results[i * kSeedsOff + s].time_to_target.value_or(
            std::numeric_limits<double>::infinity()));
      typical.push_back(typical_time(times, std::vector<double>(kSeedsOff, seconds)));
    }
    const double best = std::ranges::min(typical);
    if (!std::isfinite(best)) continue;
    for (std::size_t i = 0; i < typical.size(); ++i)
      wrong.losses[i].push_back(typical[i] / best - 1);
  }
  return wrong;
}

std::size_t choice_of(const std::vector<Halving::Place>& ranking, const Wrong& wrong) {
  std::size_t choice = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < wrong.losses.size(); ++i) {
    const auto place = static_cast<std::size_t>(
        std::ranges::find(ranking, wrong.options[i], &Halving::Place::option) - ranking.begin());
    if (wrong.losses[i].empty() || ranking[place].time > (1 + kNearTheBest) * ranking[0].time)
      continue;
    if (const double loss = mean_of(wrong.losses[i]); loss < least) {
      least = loss;
      choice = place;
    }
  }
  return choice;
}

}  // namespace rubato::cli
