// `rubato plan`: how many devices a target needs, what it costs, and what a loss costs.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/log.hpp"
#include "base/print.hpp"
#include "base/rng.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/run_data.hpp"
#include "cli/serial_runs.hpp"
#include "cli/variant_runs.hpp"
#include "cli/whatif/bounds.hpp"
#include "cli/whatif/planning.hpp"
#include "cluster/cluster_changes.hpp"
#include "cluster/cluster_plan.hpp"
#include "emulation/trace_makers.hpp"
#include "report/comparison.hpp"

namespace rubato::cli {
namespace {

using Act = cluster::ChurnEvent::Act;

constexpr double kLongestRunSeconds = 7 * 86400;  // of revocations where the file has no limit
// With and without the slowest workers, until chance no longer decides whether they are missed. The
// median lies outside of six values once in 32 times, so fewer have no 95 % interval.
constexpr int kUselessSeedsMin = 6;
constexpr int kUselessSeedsMax = 48;
constexpr std::uint64_t kRevocationStream = 1001;  // apart from all of cluster::Stream

// What is planned.
struct Question {
  cluster::ClusterConfig config;
  std::string sync;
  std::string kind;                // the group that is made larger or smaller
  std::vector<std::string> named;  // its workers
  std::vector<int> devices;        // ascending, the file's number among them
};

std::vector<std::string> names_of_group(const cluster::WorkerGroup& group) {
  std::vector<std::string> names;
  for (int i = 0; i < group.count; ++i) names.push_back(cluster::worker_name(group, i));
  return names;
}

Result<Question> read_plan(const PlanRun& options) {
  Question question;
  cluster::ClusterConfig& config = question.config;
  RUBATO_ASSIGN(config, cluster::load_cluster(options.file));
  if (options.target_loss) config.stop.target_loss = options.target_loss;
  if (!config.stop.target_loss && !config.stop.target_accuracy && !config.stop.class_targets.any())
    return fail(ErrorCode::BadInput, fmt::format("{}: has no target to plan for; give "
                                                 "--target-loss or stop.target_loss",
                                                 config.file));
  if (config.own_model())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: a plan needs a model and data of ours", config.file));
  RUBATO_TRY(cluster::require_step_times(config));
  question.sync = config.sync_or(options.sync);
  RUBATO_TRY(cluster::check_sync(config, question.sync));
  const auto group =
      options.like.empty()
          ? std::ranges::max_element(config.workers, {}, &cluster::WorkerGroup::count)
          : std::ranges::find(config.workers, options.like, &cluster::WorkerGroup::name);
  if (group == config.workers.end())
    return fail(ErrorCode::BadInput,
                fmt::format("--like {}: {} has no group of this name", options.like, config.file));
  question.kind = group->name;
  question.named = names_of_group(*group);
  std::set<int> devices(options.devices.begin(), options.devices.end());
  if (devices.empty())
    devices = {std::max(1, group->count / 2), 2 * group->count, 4 * group->count};
  devices.insert(group->count);
  question.devices.assign(devices.begin(), devices.end());
  return question;
}

VariantOptions variant_options(const PlanRun& options) {
  return {.seeds = options.seeds, .threads = options.threads, .quiet = options.quiet};
}

// The cluster with so many devices of the kind.
Result<cluster::ClusterConfig> sized(const Question& question, int devices) {
  cluster::ClusterConfig config = question.config;
  const int have = static_cast<int>(question.named.size());
  if (devices > have) RUBATO_TRY(cluster::add_workers(config, devices - have, question.kind));
  for (int i = devices; i < have; ++i)
    RUBATO_TRY(cluster::remove_workers(config, question.named[static_cast<std::size_t>(i)]));
  return config;
}

bool comes_and_goes(const cluster::ClusterConfig& config, const std::string& worker) {
  return std::ranges::find(config.churn, worker, &cluster::ChurnEvent::worker) !=
         config.churn.end();
}

void sort_events(cluster::ClusterConfig& config) {
  std::ranges::stable_sort(config.churn, {}, &cluster::ChurnEvent::at_seconds);
}

// Every device of the kind is taken away at random times, and another takes its place.
Result<void> add_revocations(Variant& variant, const Question& question, const PlanRun& options) {
  cluster::ClusterConfig& config = variant.config;
  std::set<std::string> others;
  for (const cluster::WorkerProfile& worker : cluster::worker_profiles(question.config))
    others.insert(worker.name);
  for (const std::string& name : question.named) others.erase(name);
  std::uint64_t index = 0;
  for (const cluster::WorkerProfile& worker : cluster::worker_profiles(config)) {
    if (others.contains(worker.name)) continue;
    if (comes_and_goes(question.config, worker.name))
      return fail(ErrorCode::BadInput,
                  fmt::format("--revoked: {} comes and goes already, by [[churn]] or a trace",
                              worker.name));
    const auto there = emulation::make_revocation(
        {.seconds = config.stop.max_seconds.value_or(kLongestRunSeconds),
         .mean_seconds = 3600 / options.revoked,
         .back_seconds = options.back_seconds},
        Rng(config.seed + variant.seeds_before, kRevocationStream, index++));
    for (const cluster::TracePoint& point : there.points())
      if (point.at > Duration{})
        config.churn.push_back({.at_seconds = point.at.seconds(),
                                .act = point.value > 0 ? Act::Join : Act::Crash,
                                .worker = worker.name});
  }
  sort_events(config);
  return {};
}

using Runs = std::vector<RunRecord>;

// The runs of each number of devices.
Result<std::vector<Runs>> run_sizes(const Question& question, const PlanRun& options, RunData& data,
                                    const std::stop_token& stop) {
  // Each seed has its own revocations, so each run is a variant.
  std::vector<Variant> variants;
  for (const int devices : question.devices) {
    for (int seed = 0; seed < options.seeds; ++seed) {
      Variant variant{fmt::format("{} {}", devices, question.kind), question.sync, {}};
      RUBATO_ASSIGN(variant.config, sized(question, devices));
      variant.seeds_before = static_cast<std::uint64_t>(seed);
      if (options.revoked > 0) RUBATO_TRY(add_revocations(variant, question, options));
      variants.push_back(std::move(variant));
    }
  }
  RUBATO_ASSIGN(
      auto records,
      run_variants(variants, {.threads = options.threads, .quiet = options.quiet}, data, stop));
  std::vector<Runs> runs(question.devices.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    runs[i / static_cast<std::size_t>(options.seeds)].push_back(std::move(records[i].front()));
  return runs;
}

// Where something is lost half-way: its words, and the events.
struct LossCase {
  std::string what;
  std::vector<cluster::ChurnEvent> events;
};

std::vector<LossCase> loss_cases(const Question& question, double half, double back) {
  const std::string later = fmt::format("back after {}", duration_text(back));
  const std::string& worker = question.named.back();
  std::vector<LossCase> cases;
  if (question.config.worker_count() > 1 && !comes_and_goes(question.config, worker)) {
    const cluster::ChurnEvent crash{.at_seconds = half, .act = Act::Crash, .worker = worker};
    cases.push_back({fmt::format("{}, for good", worker), {crash}});
    cases.push_back({fmt::format("{}, {}", worker, later),
                     {crash, {.at_seconds = half + back, .act = Act::Join, .worker = worker}}});
  }
  const bool servers_rest = std::ranges::none_of(
      question.config.churn, [](const auto& event) { return event.server.has_value(); });
  if (!servers_rest) return cases;
  cases.push_back({fmt::format("server-0, {}, durability snapshot", later),
                   {{.at_seconds = half, .act = Act::Crash, .server = 0},
                    {.at_seconds = half + back, .act = Act::Join, .server = 0}}});
  // It comes back with all that it had, as a process that was frozen does.
  cases.push_back({fmt::format("server-0, {}, durability journal", later),
                   {{.at_seconds = half, .act = Act::Freeze, .server = 0, .seconds = back}}});
  return cases;
}

Result<std::vector<whatif::Loss>> run_losses(const Question& question, const Runs& before,
                                             const PlanRun& options, RunData& data,
                                             const std::stop_token& stop) {
  const double time = whatif::forecast("as it is", before).time;
  if (!std::isfinite(time)) return {};
  const auto cases = loss_cases(question, time / 2, options.back_seconds);
  std::vector<Variant> variants;
  for (const LossCase& one : cases) {
    Variant variant{one.what, question.sync, question.config};
    variant.config.churn.insert(variant.config.churn.end(), one.events.begin(), one.events.end());
    sort_events(variant.config);
    variants.push_back(std::move(variant));
  }
  RUBATO_ASSIGN(const auto records, run_variants(variants, variant_options(options), data, stop));
  std::vector<whatif::Loss> losses;
  for (std::size_t i = 0; i < cases.size(); ++i)
    losses.push_back(whatif::loss_of(cases[i].what, before, records[i]));
  losses.push_back(whatif::loss_of_all(
      fmt::format("server-0, back after {}, durability none", duration_text(options.back_seconds)),
      time, options.back_seconds));
  return losses;
}

// `runs` of the variant become as many as `seeds` says.
Result<void> run_more(Runs& runs, Variant variant, int seeds, const PlanRun& options, RunData& data,
                      const std::stop_token& stop) {
  const int more = seeds - static_cast<int>(runs.size());
  if (more <= 0) return {};
  variant.seeds_before = runs.size();
  VariantOptions with = variant_options(options);
  with.seeds = more;
  RUBATO_ASSIGN(auto records, run_variants({std::move(variant)}, with, data, stop));
  std::ranges::move(records.front(), std::back_inserter(runs));
  return {};
}

// `with`: runs of the cluster as it is. Empty: all workers make steps for updates of the best size,
// or nobody knows that size.
Result<std::optional<whatif::Useless>> find_useless(const Question& question, Runs with,
                                                    const PlanRun& options, RunData& data,
                                                    const std::stop_token& stop) {
  const cluster::ClusterConfig& config = question.config;
  if (!require_bounds(config)) return std::nullopt;
  const auto serial =
      run_serial_bounds(config, question.sync, variant_options(options), data, stop);
  if (!serial && serial.error().code != ErrorCode::BadInput)
    return tl::unexpected<Error>(serial.error());
  if (!serial) {
    log_warning(serial.error().message);
    return std::nullopt;
  }
  const std::vector<std::string>& slow = serial->best.useless;
  if (slow.empty()) return std::nullopt;
  const Variant as_it_is{"as it is", question.sync, config};
  Variant fewer{"without the slowest", question.sync, config};
  for (const std::string& worker : slow) RUBATO_TRY(cluster::remove_workers(fewer.config, worker));
  Runs without;
  for (int seeds = std::max(options.seeds, kUselessSeedsMin);; seeds *= 2) {
    RUBATO_TRY(run_more(with, as_it_is, seeds, options, data, stop));
    RUBATO_TRY(run_more(without, fewer, seeds, options, data, stop));
    const auto useless = whatif::useless_of(slow, with, without);
    if (useless.sure() || 2 * seeds > std::max(options.seeds, kUselessSeedsMax)) return useless;
  }
}

Result<void> plan_checked(const PlanRun& options, const std::stop_token& stop) {
  set_log_quiet(options.quiet);
  RUBATO_ASSIGN(const Question question, read_plan(options));
  RunData data;
  RUBATO_ASSIGN(const auto runs, run_sizes(question, options, data, stop));
  std::vector<whatif::Size> sizes;
  for (std::size_t i = 0; i < runs.size(); ++i)
    sizes.push_back(whatif::size_of(question.devices[i], question.kind, runs[i]));
  const auto as_it_is = static_cast<std::size_t>(
      std::ranges::find(question.devices, static_cast<int>(question.named.size())) -
      question.devices.begin());
  // What a loss costs is told of the cluster without other losses.
  Runs calm = runs[as_it_is];
  if (options.revoked > 0) {
    RUBATO_ASSIGN(auto records, run_variants({{"as it is", question.sync, question.config}},
                                             variant_options(options), data, stop));
    calm = std::move(records.front());
  }
  const whatif::Forecast with = whatif::forecast("as it is", calm);
  RUBATO_ASSIGN(const auto losses, run_losses(question, calm, options, data, stop));
  RUBATO_ASSIGN(const auto useless, find_useless(question, calm, options, data, stop));
  if (options.json) {
    report::Json all{{"kind", question.kind},
                     {"sync", question.sync},
                     {"sizes", report::Json::array()},
                     {"losses", report::Json::array()},
                     {"useless", useless ? whatif::useless_json(*useless) : report::Json(nullptr)}};
    for (const whatif::Size& size : sizes) all["sizes"].push_back(whatif::size_json(size));
    for (const whatif::Loss& loss : losses) all["losses"].push_back(whatif::loss_json(loss));
    print_json(json_text(all, 2));
    return {};
  }
  const std::size_t width = text_columns(stdout);
  const cluster::ClusterConfig& config = question.config;
  print_text("{}: {} under {}, target {}, {}, virtual time\n\n", config.name,
             counted(static_cast<std::uint64_t>(config.worker_count()), "worker"),
             report::model_title(question.sync),
             targets_text(config.stop.target_loss, config.stop.target_accuracy,
                          config.stop.class_targets, config.dataset.task),
             counted(static_cast<std::uint64_t>(options.seeds), "seed"));
  print_text("{}\n\n{}\n", whatif::size_table(sizes, options.revoked > 0, width),
             wrapped(whatif::size_text(sizes, options.within), width));
  if (!losses.empty()) print_text("\n{}\n", whatif::loss_table(losses, width));
  if (useless) print_text("\n{}\n", wrapped(whatif::useless_text(*useless), width));
  return {};
}

}  // namespace

int plan(const PlanRun& options, std::stop_token stop) {
  return exit_code(plan_checked(options, stop));
}

}  // namespace rubato::cli
