// `rubato choose`: which sync model, with which options, is the quickest on a cluster: found on
// virtual time, and written down as a cluster file.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/quote.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"
#include "cli/choice/chosen_file.hpp"
#include "cli/choice/option_runs.hpp"
#include "cli/command_files.hpp"
#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cli/run_data.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/own_data.hpp"
#include "nodes/loop_command.hpp"
#include "report/table.hpp"
#include "train/device.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPlacesShown = 10;
constexpr double kEvaluationsMin = 20;  // in a time that can be compared

double reached_of(const std::vector<double>& times) {
  return static_cast<double>(
      std::ranges::count_if(times, [](double t) { return std::isfinite(t); }));
}

std::string places_table(const OptionRuns& runs, const std::vector<Halving::Place>& ranking) {
  std::vector<std::vector<std::string>> columns{
      {"Option"}, {"Time to target"}, {"Range"}, {"Seeds"}, {"More than the first"}};
  const double best = ranking.front().time;
  for (const Halving::Place& place : ranking) {
    if (columns[0].size() > kPlacesShown) break;
    const auto [least, most] = std::ranges::minmax(place.times);
    const double reached = reached_of(place.times);
    columns[0].push_back(
        fmt::format("{}. {}", columns[0].size(), runs.options()[place.option].text));
    columns[1].push_back(duration_or(place.time));
    columns[2].push_back(
        reached == 0 ? "-"
                     : fmt::format("{} to {}", duration_or(least), duration_or(most, "never")));
    columns[3].push_back(reached == static_cast<double>(place.times.size())
                             ? fmt::format("{}", place.times.size())
                             : fmt::format("{:.0f}/{}", reached, place.times.size()));
    columns[4].push_back(
        std::isfinite(place.time) && place.time > best ? percent_text(place.time / best - 1) : "-");
  }
  return report::aligned(columns, text_columns(stdout));
}

std::string wrong_table(const OptionRuns& runs, const Wrong& wrong) {
  std::vector<std::vector<std::string>> columns{
      {"Option"}, {"Loses, median"}, {"At most"}, {"Within 10 %"}};
  const auto text = [](double loss) {
    return std::isfinite(loss) ? percent_text(loss) : "does not arrive";
  };
  for (std::size_t i = 0; i < wrong.options.size(); ++i) {
    const auto& losses = wrong.losses[i];
    columns[0].push_back(runs.options()[wrong.options[i]].text);
    columns[1].push_back(text(upper_median(losses)));
    columns[2].push_back(text(std::ranges::max(losses)));
    columns[3].push_back(
        fmt::format("{} of {}", std::ranges::count_if(losses, [](double l) { return l <= 0.1; }),
                    losses.size()));
  }
  return report::aligned(columns, text_columns(stdout));
}

// The margin in words.
std::string answer(const OptionRuns& runs, const std::vector<Halving::Place>& ranking,
                   std::size_t chosen) {
  const auto name = [&](std::size_t place) { return runs.options()[ranking[place].option].text; };
  const Halving::Place& first = ranking.front();
  if (chosen != 0)
    return fmt::format(
        "The choice is {}: {}. {} takes {}, but loses more where links and speeds are "
        "not as the file says.",
        name(chosen), duration_or(ranking[chosen].time), name(0), duration_or(first.time));
  const std::string text = fmt::format("The choice is {}: {}", name(0), duration_or(first.time));
  if (ranking.size() < 2 || !std::isfinite(ranking[1].time)) return text + ".";
  const double margin = 1 - first.time / ranking[1].time;
  const bool apart = std::ranges::max(first.times) < std::ranges::min(ranking[1].times);
  return fmt::format("{}, {} {}{}", text,
                     margin < 0.0005 ? "as quick as" : percent_text(margin) + " less than", name(1),
                     apart ? "." : "; the seeds' ranges meet.");
}

// `text`, a cluster file that lies at `out`, must say the same as the source with `settings`.
// `remedy`: what can be done beside naming another file.
Result<void> check_same_at(const std::string& out, const std::string& text,
                           const cluster::ClusterSource& source,
                           const std::vector<Setting>& settings, const std::string& remedy) {
  RUBATO_ASSIGN(const auto wanted,
                cluster::parse_cluster(source.text, source.file, source.catalog_text, settings));
  const auto there = cluster::parse_cluster(text, out, source.catalog_text);
  if (there && there->effective == wanted.effective && there->dataset == wanted.dataset) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("{}: cannot be written there{}: name a file beside {} with --out{}", out,
                          there ? "" : " (" + there.error().message + ")", source.file, remedy));
}

// Sees whether the cluster file with the option says what was chosen where it will lie, and writes
// it.
Result<void> write_chosen(const cluster::ClusterSource& source, const Tried& tried,
                          const ChooseOptions& options, const std::string& out) {
  std::vector<Setting> settings = tried.settings;
  settings.push_back({"sync_model", fmt::format("\"{}\"", tried.sync)});
  if (options.target_loss)
    settings.push_back({"stop.target_loss", fmt::format("{}", *options.target_loss)});
  const std::string text =
      fmt::format("# Chosen by rubato choose from {}: {}.\n{}", printable(source.file), tried.text,
                  with_settings(source.text, settings));
  std::string keys;
  for (const Setting& setting : settings)
    keys += fmt::format("{}{} = {}", keys.empty() ? "" : ", ", setting.key, setting.value);
  RUBATO_TRY(check_same_at(out, text, source, settings, ", or set yourself " + keys));
  return write_file(out, text);
}

Result<void> choose_checked(const ChooseOptions& options, const std::stop_token& stop) {
  const Instant began = steady_now();
  RUBATO_ASSIGN(const auto source, cluster::read_cluster(options.file));
  set_log_quiet(options.quiet);
  const std::string out = chosen_file(options);
  RUBATO_TRY(check_same_at(out, source.text, source, {}, ""));
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  RUBATO_TRY(nodes::use_loop(config, options.module, options.loop));
  const auto edit = [&](cluster::ClusterConfig& each) {
    if (options.target_loss) each.stop.target_loss = options.target_loss;
    each.model = config.model;  // with the program of a loop
    if (!each.stop.max_seconds) each.stop.max_seconds = cluster::run_seconds(each);
  };
  edit(config);
  RUBATO_TRY(cluster::require_step_times(config));
  if (!config.stop.has_target())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: no target to be quick to: set stop.target_loss or "
                            "stop.target_accuracy, or give --target-loss",
                            options.file));
  RUBATO_TRY(cluster::require_trainable(config));
  RunData loaded;
  RUBATO_ASSIGN(const LoadedData* const data,
                nodes::interruptible(process_stop(stop), [&] { return loaded.of(config); }));
  if (!config.own_model()) {
    RUBATO_TRY(cluster::check_target(config, data->split));
    train::log_device(config.worker_device);
  }
  RUBATO_ASSIGN(const auto runs, OptionRuns::make(source, edit, data->split, data->loops));
  const std::uint64_t seed = options.seed.value_or(config.seed);
  const int threads = threads_of(options.threads);
  const double budget = options.minutes * 60 * kUsualCores;
  RUBATO_ASSIGN(Halving halving, make_search(runs, kBudgetOfSearch * budget));
  RUBATO_TRY(search(runs, halving, seed, threads, stop, [&](const auto& trials) {
    log_info(fmt::format("{}: {} of up to {}; {:.0f} % of the budget is spent", halving.part(),
                         counted(trials.size(), "run"), duration_text(trials.front().seconds),
                         100 * halving.spent() / budget));
  }));
  const auto ranking = halving.ranking();
  const std::string target = targets_text(config.stop.target_loss, config.stop.target_accuracy,
                                          config.stop.class_targets, config.dataset.task);
  const auto wall = [&] { return duration_text((steady_now() - began).seconds()); };
  if (!std::isfinite(ranking.front().time)) {
    const Halving::Place& best = ranking.front();
    return fail(ErrorCode::Missed,
                fmt::format("no option reached {} {}; the lowest loss was {}, of {}, in {} of the "
                            "run; the search took {}",
                            target,
                            halving.cut_short() ? "before the budget was spent: raise --minutes"
                                                : "within stop.max_seconds",
                            loss_text(best.loss), runs.options()[best.option].text,
                            duration_text(best.seconds), wall()));
  }
  log_info("the best on clusters that are not as the file says");
  RUBATO_ASSIGN(const Wrong wrong,
                wrong_clusters(runs, ranking, budget - halving.spent(), seed, threads, stop));
  print_text("{}: {}, {} tried, seeds from {}\n\n{}\n\n", config.name, target,
             counted(runs.options().size(), "option"), seed, places_table(runs, ranking));
  const std::size_t width = text_columns(stdout);
  const std::size_t place = choice_of(ranking, wrong);
  print_text("{}\n", wrapped(answer(runs, ranking, place), width));
  const double interval = config.evaluation.interval_seconds;
  if (ranking.front().time < kEvaluationsMin * interval)
    print_text("{}\n",
               wrapped(fmt::format("That is {:.0f} evaluations, so times differ by steps of "
                                   "{}: a lower evaluation.interval_seconds tells more "
                                   "options apart.",
                                   ranking.front().time / interval, duration_text(interval)),
                       width));
  if (halving.cut_short())
    print_text("{}\n", wrapped("The budget ended before all seeds had run: with more --minutes the "
                               "choice is surer.",
                               width));
  if (wrong.losses.empty() || wrong.losses.front().empty()) {
    print_text("{}\n", wrapped("Nothing is left of the budget to see what the choice loses where "
                               "links and speeds are not as the file says.",
                               width));
  } else {
    print_text(
        "\nIf links and speeds are 30 % more or less than the file says, beside the best of "
        "these:\n\n{}\n\n",
        wrong_table(runs, wrong));
  }
  const Tried& chosen = runs.options()[ranking[place].option];
  RUBATO_TRY(write_chosen(source, chosen, options, out));
  print_text("Search: {}\nCluster file: {}\nNext: rubato up {}\n", wall(), out, shell_word(out));
  return {};
}

}  // namespace

int choose(const ChooseOptions& options, std::stop_token stop) {
  return exit_code(choose_checked(options, stop));
}

}  // namespace rubato::cli
