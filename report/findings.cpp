#include "report/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cluster/churn.hpp"
#include "scheduler/stop_criterion.hpp"
#include "sync/factory.hpp"
#include "sync/first_commit.hpp"
#include "sync/option_table.hpp"

namespace rubato::report {
namespace {

using cluster::ClusterConfig;
using cluster::DataFacts;
using cluster::WorkerData;

constexpr std::size_t kNamesMax = 3;  // in a line
constexpr double kMostSamples = 0.9;  // of all: others hardly count
// From the start to the end: less is chance.
constexpr double kRisen = 1.01;

void add(std::vector<Finding>& findings, std::string_view code, std::string text) {
  findings.push_back({std::string(code), std::move(text)});
}

// "a, b, c and 4 more".
std::string listed(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  const std::size_t shown = names.size() > kNamesMax ? kNamesMax : names.size() - 1;
  const std::string first =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(shown), ", "));
  return names.size() > kNamesMax ? fmt::format("{} and {} more", first, names.size() - shown)
                                  : fmt::format("{} and {}", first, names.back());
}

std::string count(std::uint64_t number) {
  return count_text(static_cast<double>(number));
}

// --- the end of the run --------------------------------------------------------------------------

// "raise stop.max_seconds", or whichever limit will end the run.
std::string last_longer(const ClusterConfig& config) {
  const auto seconds = cluster::run_seconds(config);
  const bool time = config.stop.max_seconds && seconds == config.stop.max_seconds;
  return time ? "raise stop.max_seconds" : "raise stop.max_steps";
}

// The same where one has ended it, or something else.
std::string last_longer(const RunRecord& run) {
  for (const char* limit : {"max_seconds", "max_steps"})
    if (run.stop_reason.starts_with(limit)) return fmt::format("raise stop.{}", limit);
  return "let the run last longer";
}

// Where numbers grew too large. If the loss was no number before the training, no rate did it.
std::string lower_rate(const ClusterConfig& config, const RunRecord& run) {
  const bool from_start = run.measured() && run.evaluations.front().commits == 0 &&
                          !std::isfinite(run.evaluations.front().loss);
  const std::string unscaled =
      config.dataset.standardize ? "" : "remove dataset.standardize = false";
  if (from_start)
    return fmt::format(
        "it was none before the training either: look for numbers that are far too large in the "
        "data{}{}",
        config.model.start.empty() ? "" : " and in model.start",
        unscaled.empty() ? "" : ", or " + unscaled);
  if (config.own_model()) return "lower the learning rate of the loop, or look at its data";
  return fmt::format("{}lower training.learning_rate (now {})",
                     unscaled.empty() ? "" : unscaled + ", or ", config.training.learning_rate);
}

// --- commits -------------------------------------------------------------------------------------

constexpr double kStepsAsked = 1e6;  // of a worker, at most: then it is known to commit rarely

// When the first commit of a run under `sync` can be answered.
struct FirstCommit {
  bool within_run = true;       // or nobody knows
  std::optional<double> after;  // seconds, where it is later
};

FirstCommit expected_commit(const ClusterConfig& config, const std::string& sync) {
  const auto seconds = cluster::run_seconds(config);
  if (!seconds) return {};
  // Real machines may have no step times: then steps are as short as the number allows.
  const bool timed = cluster::find_untimed(config) == nullptr;
  std::vector<Duration> steps;
  for (const auto& worker : cluster::worker_profiles(config))
    if (!absent_at_start(config, worker.name))
      steps.push_back(std::max(
          Duration{1},
          Duration::from_seconds(timed ? worker.device.step_seconds : *seconds / kStepsAsked)));
  if (steps.empty()) return {};
  const Duration asked = std::ranges::min(steps) * kStepsAsked;
  const Duration run = Duration::from_seconds(*seconds);
  const sync::RunFacts facts{.parameter_bytes = 1, .batches = 1, .batch = config.training.batch};
  const auto first = [&](Duration limit) {
    return sync::first_commit(sync, config.sync, facts, steps, limit);
  };
  if (first(std::min(run, asked)) || asked < run) return {};
  const auto later = timed ? first(asked) : first(run * 100);
  return {false, later ? std::optional(later->seconds()) : std::nullopt};
}

// "lower sync.adsp.check_period_seconds (now 60), or raise stop.max_seconds".
std::string sooner_commit(const ClusterConfig& config, const std::string& sync,
                          const std::string& longer) {
  const std::string_view key = sync::spacing_key(sync);
  for (const auto& row : sync::option_rows())
    if (row.of == sync && row.key == key)
      return fmt::format("lower sync.{}.{} (now {}), or {}", sync, key,
                         value_text(row, config.sync), longer);
  return longer;
}

std::string_view title_of(const std::string& sync) {
  return sync::find_model(sync)->title;
}

void find_no_commit_early(const ClusterConfig& config, const std::string& sync,
                          std::vector<Finding>& findings) {
  const FirstCommit first = expected_commit(config, sync);
  if (first.within_run) return;
  const double seconds = *cluster::run_seconds(config);
  add(findings, finding::kNoCommit,
      fmt::format("no commit will be made under {}: the first one {}, and the run ends after {}; "
                  "{}",
                  title_of(sync),
                  first.after ? "comes after " + duration_text(*first.after) : "comes much later",
                  duration_text(seconds), sooner_commit(config, sync, last_longer(config))));
}

constexpr std::array kReasons{"not finite", "too large", "of another kind", "out of date"};
constexpr std::size_t kNotFinite = 0, kTooLarge = 1, kOtherKind = 2, kOutOfDate = 3;

std::string in_words(const RefusedByReason& refused) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < refused.size(); ++i)
    if (refused[i] > 0) words.push_back(fmt::format("{} {}", count(refused[i]), kReasons[i]));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::uint64_t sum(const RefusedByReason& refused) {
  return std::accumulate(refused.begin(), refused.end(), std::uint64_t{0});
}

// The worker that almost all refused commits are of, though others commit, too; null: there is
// none.
const WorkerRecord* refused_alone(const RunRecord& run) {
  if (run.workers.size() < 2) return nullptr;
  const auto of = [](const WorkerRecord& worker) { return sum(worker.refused); };
  const WorkerRecord& most = *std::ranges::max_element(run.workers, {}, of);
  const bool others = run.commits > most.commits + most.commits / 4;
  return of(most) > 0 && 10 * of(most) >= 9 * sum(run.refused) && others ? &most : nullptr;
}

std::string refusal_remedy(const ClusterConfig& config, const RunRecord& run) {
  if (run.refused[kNotFinite] + run.refused[kTooLarge] == 0)
    return run.refused[kOtherKind] > 0 ? "start all nodes with the same --sync" : "";
  if (const WorkerRecord* one = refused_alone(run))
    return fmt::format("almost all are of {}: look at its data", one->id);
  return lower_rate(config, run) +
         (config.training.optimizer.clip_norm > 0 ? "" : ", or set training.clip_norm");
}

// In virtual time each server counts what it refuses, in a real run each worker.
std::uint64_t refusable(const ClusterConfig& config, const RunRecord& run) {
  const bool by_worker = std::ranges::any_of(
      run.workers, [](const WorkerRecord& worker) { return sum(worker.refused) > 0; });
  const auto servers = static_cast<std::uint64_t>(by_worker ? 1 : config.servers.count);
  return std::max(run.commits * servers, sum(run.refused));
}

void find_commits(const ClusterConfig& config, const RunRecord& run,
                  std::vector<Finding>& findings) {
  const std::uint64_t refused = sum(run.refused);
  if (run.commits == 0 && refused == 0) {
    const FirstCommit first = expected_commit(config, run.sync);
    add(findings, finding::kNoCommit,
        fmt::format("no commit was made, so the model is as it began: {}, and the run ended after "
                    "{}; {}",
                    first.after
                        ? "the first one comes after " + duration_text(*first.after)
                        : fmt::format("no worker had to commit in {} steps", count(run.steps)),
                    duration_text(run.seconds), sooner_commit(config, run.sync, last_longer(run))));
    return;
  }
  if (refused == 0) return;
  const std::uint64_t all = refusable(config, run);
  // After a setback some are out of date, and nothing is wrong with them.
  if (refused == run.refused[kOutOfDate] && 10 * refused < all) return;
  const bool every = refused >= all;
  const std::string remedy = refusal_remedy(config, run);
  const std::string_view code = every                ? finding::kNoCommit
                                : 2 * refused >= all ? finding::kMostRefused
                                                     : finding::kCommitsRefused;
  add(findings, code,
      fmt::format("{} {} were refused ({}){}{}{}",
                  every ? "all " + count(all) : fmt::format("{} of {}", count(refused), count(all)),
                  all > std::max(run.commits, refused) ? "parts of commits" : "commits",
                  in_words(run.refused), every ? ", so the model is as it began" : "",
                  remedy.empty() ? "" : "; ", remedy));
}

// --- loss ----------------------------------------------------------------------------------------

// Of a model that gives each class the same chance; 0: unknown.
double guessing_loss(const ClusterConfig& config, const DataFacts& data) {
  if (config.dataset.task == Task::Regression || data.outputs < 2) return 0;
  return config.model.kind == "svm" ? 1 : std::log(data.outputs);
}

// Also of what loss_text() calls no number.
std::string number_text(double loss) {
  return std::abs(loss) < 1e6 ? loss_text(loss) : fmt::format("{:.2g}", loss);
}

// Mean over the workers; NaN: unknown.
double training_loss(const RunRecord& run) {
  double all = 0, workers = 0;
  for (const WorkerRecord& worker : run.workers) {
    if (!worker.training_loss || worker.fate != "member") continue;
    all += *worker.training_loss;
    ++workers;
  }
  return workers > 0 ? all / workers : std::numeric_limits<double>::quiet_NaN();
}

// What was measured is the model as it began: the first evaluation comes with the first step.
bool measured_untrained(const ClusterConfig& config, const RunRecord& run) {
  return run.evaluations.back().seconds <
         std::min(config.evaluation.interval_seconds, run.seconds) / 2;
}

void find_never_evaluated(const ClusterConfig& config, const RunRecord& run,
                          std::vector<Finding>& findings) {
  const double interval = config.evaluation.interval_seconds;
  const char* what =
      run.measured() ? "was evaluated before its training only" : "was never evaluated";
  const std::string why =
      interval >= run.seconds
          ? fmt::format("evaluation.interval_seconds is {}, and the run ended after {}", interval,
                        duration_text(run.seconds))
          : fmt::format("no evaluation had come when the run ended after {}",
                        duration_text(run.seconds));
  add(findings, finding::kNeverEvaluated,
      fmt::format("the model {}: {}; lower evaluation.interval_seconds, or {}", what, why,
                  last_longer(run)));
}

// Why the loss at the end is no result, if it is none.
void find_bad_loss(const ClusterConfig& config, const RunRecord& run, const DataFacts& data,
                   std::vector<Finding>& findings) {
  const EvaluationRecord& first = run.evaluations.front();
  const EvaluationRecord& last = run.evaluations.back();
  if (!std::isfinite(last.loss))
    return add(findings, finding::kDiverged,
               "diverged: the loss at the end is not a number; " + lower_rate(config, run));
  double lowest = last.loss;
  for (const EvaluationRecord& each : run.evaluations)
    if (each.loss < lowest) lowest = each.loss;
  const double guessing = guessing_loss(config, data);
  const bool worse_than_start = last.loss > kRisen * first.loss;
  const bool worse_than_guessing = guessing > 0 && last.loss > guessing;
  const bool risen = worse_than_guessing && lowest < guessing;
  const double training = training_loss(run);
  if ((worse_than_start || risen) && training < first.loss && training < last.loss / 2 &&
      !(guessing > 0 && training > guessing))
    return add(
        findings, finding::kOverfitted,
        fmt::format("overfitted: the loss on held-out data is {} at the end and was {} at best, "
                    "while that on the training data is {}; use the best model that was saved, "
                    "end the run sooner, or set training.weight_decay",
                    loss_text(last.loss), loss_text(lowest), loss_text(training)));
  if (worse_than_start)
    return add(
        findings, finding::kDiverged,
        fmt::format("diverged: the loss is {} at the end and was {} at the start; {}",
                    number_text(last.loss), number_text(first.loss), lower_rate(config, run)));
  if (risen)
    return add(findings, finding::kDiverged,
               fmt::format("diverged: the loss had fallen to {} and is {} at the end, worse than "
                           "that of guessing ({}); {}",
                           loss_text(lowest), number_text(last.loss), loss_text(guessing),
                           lower_rate(config, run)));
  const bool below_mean =
      config.dataset.task == Task::Regression && std::isfinite(last.accuracy) && last.accuracy < 0;
  if (!worse_than_guessing && !below_mean) return;
  const std::string what =
      below_mean ? fmt::format("R^2 is {:.4f} at the end: to predict the mean would be better",
                               last.accuracy)
                 : fmt::format("the loss at the end, {}, is worse than that of guessing ({})",
                               loss_text(last.loss), loss_text(guessing));
  add(findings, finding::kWorseThanGuessing,
      fmt::format("{}; {}, or {} if it was too short", what, lower_rate(config, run),
                  last_longer(run)));
}

// --- target --------------------------------------------------------------------------------------

bool has_target(const ClusterConfig& config) {
  return config.stop.has_target();
}

void find_met_at_start(const ClusterConfig& config, const RunRecord& run,
                       std::vector<Finding>& findings) {
  const EvaluationRecord& first = run.evaluations.front();
  const auto& loss = config.stop.target_loss;
  const auto& accuracy = config.stop.target_accuracy;
  if ((loss && !(first.loss <= *loss)) || (accuracy && !(first.accuracy >= *accuracy))) return;
  if (!reaches(first.classes, config.stop.class_targets)) return;
  add(findings, finding::kTargetMetAtStart,
      fmt::format("the first evaluation, after {}, meets the target already: the time to target "
                  "says nothing; {}",
                  duration_text(first.seconds),
                  loss       ? "lower the target loss"
                  : accuracy ? "raise stop.target_accuracy"
                             : "raise the target"));
}

void find_out_of_reach(const ClusterConfig& config, std::uint64_t evaluations, double seconds,
                       const std::string& longer, std::vector<Finding>& findings) {
  if (evaluations >= scheduler::kSmoothedEvaluations) return;
  add(findings, finding::kTargetOutOfReach,
      fmt::format("the target is judged by the mean of {} evaluations, and a run of {} has {}; "
                  "lower evaluation.interval_seconds (now {}), or {}",
                  scheduler::kSmoothedEvaluations, duration_text(seconds), evaluations,
                  config.evaluation.interval_seconds, longer));
}

// --- data ----------------------------------------------------------------------------------------

// Classes that one worker alone has, and their workers.
std::vector<std::string> lonely_classes(const DataFacts& data) {
  std::map<std::string, std::vector<const WorkerData*>> holders;
  for (const WorkerData& worker : data.workers)
    for (const auto& [name, samples] : worker.classes)
      if (samples > 0) holders[name].push_back(&worker);
  std::vector<std::string> lonely;
  for (const auto& [name, workers] : holders)
    if (workers.size() == 1)
      lonely.push_back(fmt::format("'{}' ({})", name, workers.front()->worker));
  return lonely;
}

void find_lonely_data(const DataFacts& data, std::vector<Finding>& findings) {
  if (data.workers.size() < 2) return;
  if (const auto lonely = lonely_classes(data); !lonely.empty())
    add(findings, finding::kDataOfOneWorker,
        fmt::format(
            "{} in the data of one worker alone: {}; the model learns {} from that "
            "worker's commits only, and forgets {} when the worker is slow or gone",
            lonely.size() == 1 ? "a class is" : fmt::format("{} classes are each", lonely.size()),
            listed(lonely), lonely.size() == 1 ? "it" : "them",
            lonely.size() == 1 ? "it" : "them"));
  const WorkerData& most = *std::ranges::max_element(data.workers, {}, &WorkerData::samples);
  std::uint64_t all = 0;
  for (const WorkerData& worker : data.workers) all += worker.samples;
  if (static_cast<double>(most.samples) >= kMostSamples * static_cast<double>(all))
    add(findings, finding::kDataOfOneWorker,
        fmt::format("{} has {} of all {} samples: the others train on few samples again and "
                    "again; give them more data, or leave them out",
                    most.worker, count(most.samples), count(all)));
}

void find_left_out(const DataFacts& data, std::vector<Finding>& findings) {
  for (const std::string& line : data.left_out) add(findings, finding::kDataLeftOut, line);
}

// Of workers with data of their own. A later life has read the same data again.
void find_left_out(const RunRecord& run, std::vector<Finding>& findings) {
  std::map<std::string, std::uint64_t> left_out;
  for (const auto& worker : run.workers)
    if (worker.left_out > 0) left_out[worker.id] = worker.left_out;
  for (const auto& [name, files] : left_out)
    add(findings, finding::kDataLeftOut,
        fmt::format("worker {}: {} left out; its log says what", name,
                    files == 1 ? "1 file or sample" : with_commas(files) + " files or samples"));
}

// --- workers -------------------------------------------------------------------------------------

struct Lives {
  std::uint64_t steps = 0;
  std::uint64_t commits = 0;
  double present = 0;  // seconds
};

// All lives of a worker, by its name.
std::map<std::string, Lives> lives_of(const ClusterConfig& config, const RunRecord& run) {
  std::map<std::string, Lives> lives;
  for (const auto& worker : cluster::worker_profiles(config))
    if (!absent_at_start(config, worker.name)) lives[worker.name];
  for (const WorkerRecord& worker : run.workers) {
    Lives& all = lives[worker.id];
    all.steps += worker.steps;
    all.commits += worker.commits;
    all.present += worker.left_seconds.value_or(run.seconds) - worker.joined_seconds;
  }
  return lives;
}

// "slow (a step takes 30 s)".
std::string with_step(const ClusterConfig& config, const std::string& name, double seconds) {
  for (const auto& worker : cluster::worker_profiles(config))
    if (worker.name == name && worker.device.step_seconds >= seconds)
      return fmt::format("{} (a step takes {})", name, duration_text(worker.device.step_seconds));
  return name;
}

// Of workers that were there for a while.
void find_idle_workers(const ClusterConfig& config, const RunRecord& run,
                       std::vector<Finding>& findings) {
  std::vector<std::string> stepless, commitless;
  const auto lives = lives_of(config, run);
  for (const auto& [name, life] : lives) {
    if (life.steps == 0)
      stepless.push_back(life.present > 0 ? with_step(config, name, run.seconds)
                                          : name + " (it never joined)");
    else if (life.commits == 0 && life.present > run.seconds / 10)
      commitless.push_back(name);
  }
  if (!stepless.empty())
    add(findings, finding::kWorkerNoStep,
        fmt::format("{} of {} workers made no step: {}; nothing of their data is in the model",
                    stepless.size(), lives.size(), listed(stepless)));
  if (!commitless.empty() && run.commits > 0)
    add(findings, finding::kWorkerNoCommit,
        fmt::format("{} of {} workers made steps and no commit: {}; nothing of their data is in "
                    "the model",
                    commitless.size(), lives.size(), listed(commitless)));
}

void find_slow_workers(const ClusterConfig& config, double seconds,
                       std::vector<Finding>& findings) {
  std::vector<std::string> slow;
  for (const auto& worker : cluster::worker_profiles(config))
    if (worker.device.step_seconds >= seconds)
      slow.push_back(with_step(config, worker.name, seconds));
  if (!slow.empty())
    add(findings, finding::kWorkerNoStep,
        fmt::format("no step will be made by {}, for the run ends after {}; {}", listed(slow),
                    duration_text(seconds), last_longer(config)));
}

}  // namespace

std::vector<Finding> early_findings(const cluster::ClusterConfig& config,
                                    const std::vector<std::string>& models, const DataFacts& data) {
  std::vector<Finding> findings;
  for (const std::string& sync : models) find_no_commit_early(config, sync, findings);
  const auto seconds = cluster::run_seconds(config);
  if (seconds && !config.timing_only()) {
    const double interval = config.evaluation.interval_seconds;
    if (interval >= *seconds)
      add(findings, finding::kNeverEvaluated,
          fmt::format("the model will not be evaluated while it trains: "
                      "evaluation.interval_seconds is {}, and the run ends after {}; lower it",
                      interval, duration_text(*seconds)));
    else if (has_target(config))
      find_out_of_reach(config, 1 + static_cast<std::uint64_t>(*seconds / interval), *seconds,
                        last_longer(config), findings);
  }
  if (seconds) find_slow_workers(config, *seconds, findings);
  find_lonely_data(data, findings);
  find_left_out(data, findings);
  return findings;
}

void warn_early(const cluster::ClusterConfig& config, const std::vector<std::string>& models,
                const DataFacts& data) {
  for (const Finding& found : early_findings(config, models, data)) log_warning(found.text);
}

std::vector<Finding> run_findings(const cluster::ClusterConfig& config, const RunRecord& run,
                                  const DataFacts& data) {
  std::vector<Finding> findings;
  if (run.steps == 0) return findings;
  find_commits(config, run, findings);
  const bool trained =
      std::ranges::find(findings, finding::kNoCommit, &Finding::code) == findings.end();
  if (!config.timing_only()) {
    if (!run.measured() || measured_untrained(config, run))
      find_never_evaluated(config, run, findings);
    else if (trained && !run.time_to_target_seconds)
      find_bad_loss(config, run, data, findings);
    if (has_target(config) && run.measured()) {
      find_met_at_start(config, run, findings);
      if (!run.time_to_target_seconds)
        find_out_of_reach(config, run.evaluations.size(), run.seconds, last_longer(run), findings);
    }
  }
  find_idle_workers(config, run, findings);
  if (run.setbacks > 0)
    add(findings, finding::kSetbacks,
        fmt::format("all servers went back to a good copy of the model {}; {}",
                    run.setbacks == 1 ? "once" : fmt::format("{} times", run.setbacks),
                    lower_rate(config, run)));
  find_lonely_data(data, findings);
  find_left_out(data, findings);
  find_left_out(run, findings);
  return findings;
}

}  // namespace rubato::report
