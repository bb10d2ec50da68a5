// `rubato whatif`: a cluster with one thing changed, in virtual time, beside the cluster as it is.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/measured_run.hpp"
#include "cli/run_data.hpp"
#include "cli/run_place.hpp"
#include "cli/variant_runs.hpp"
#include "cli/whatif/changes.hpp"
#include "cli/whatif/forecast.hpp"
#include "report/comparison.hpp"

namespace rubato::cli {
namespace {

// Of the default, where so many variants are tried.
constexpr int kSeedsOfRanking = 3;
constexpr int kSeedsOfChanges = 5;

bool any_asked(const whatif::Asked& asked) {
  return !(asked.set.empty() && asked.sync.empty() && asked.add == 0 && asked.without.empty() &&
           asked.links.empty() && asked.codecs.empty());
}

bool has_target(const cluster::ClusterConfig& config) {
  const auto& stop = config.stop;
  return stop.target_loss || stop.target_accuracy || stop.class_targets.any();
}

Setting target_setting(double loss) {
  return {"stop.target_loss", fmt::format("{}", loss)};
}

struct Variants {
  std::vector<Variant> all;             // the base first
  std::vector<std::string> impossible;  // lines of changes that cannot be tried
};

// `asked`: whoever asked for a change is told why it cannot be; else it is left out.
Result<Variants> variants_of(const whatif::Base& base, const std::vector<whatif::Change>& changes,
                             bool asked) {
  Variants variants;
  variants.all.push_back(base.variant);
  for (const whatif::Change& change : changes) {
    auto variant = whatif::apply(base, change);
    if (variant)
      variants.all.push_back(std::move(*variant));
    else if (asked)
      return tl::unexpected<Error>(variant.error());
  }
  return variants;
}

void print_forecasts(const whatif::Forecast& base, const std::vector<whatif::Forecast>& changes,
                     const std::vector<whatif::Effect>& effects) {
  report::Json rows = report::Json::array();
  for (const std::size_t i : whatif::ranking(effects)) {
    report::Json row = whatif::forecast_json(changes[i]);
    row.update(whatif::effect_json(effects[i]));
    rows.push_back(std::move(row));
  }
  const report::Json all{{"base", whatif::forecast_json(base)}, {"changes", std::move(rows)}};
  print_json(json_text(all, 2));
}

// The cluster of a file.
Result<whatif::Base> base_of_file(const WhatIf& options) {
  // Says what is wrong with the file itself, or that it is another kind of file.
  RUBATO_ASSIGN(const auto config, cluster::load_cluster(options.file));
  whatif::Base base;
  RUBATO_ASSIGN(base.source, cluster::read_cluster(options.file));
  base.sync = config.sync_or(options.base_sync);
  if (options.target_loss) base.settings.push_back(target_setting(*options.target_loss));
  RUBATO_TRY(whatif::read_base(base, "as it is"));
  return base;
}

// The cluster that a real run was, fitted under its own model.
Result<whatif::Base> base_of_run(const WhatIf& options, RunData& data,
                                 const std::stop_token& stop) {
  RUBATO_ASSIGN(auto runs, read_measured_runs(options.file));
  const auto run = std::ranges::find_if(runs, [&](const MeasuredRun& each) {
    return options.base_sync.empty() || each.record.sync == options.base_sync;
  });
  if (run == runs.end())
    return fail(ErrorCode::BadInput, fmt::format("--base-sync {}: {} holds no such run",
                                                 options.base_sync, options.file));
  if (options.target_loss) run->settings.push_back(target_setting(*options.target_loss));
  return fit_cluster(*run, options.threads, data, stop);
}

Result<whatif::Base> read_question(const WhatIf& options, RunData& data,
                                   const std::stop_token& stop) {
  const auto run = find_run(options.file);
  if (!run || !std::filesystem::is_directory(*run)) return base_of_file(options);
  return base_of_run(options, data, stop);
}

Result<void> whatif_checked(const WhatIf& options, const std::stop_token& stop) {
  set_log_quiet(options.quiet);
  RunData data;
  RUBATO_ASSIGN(const whatif::Base base, read_question(options, data, stop));
  const cluster::ClusterConfig& config = base.variant.config;
  const bool asked = any_asked(options.asked);
  const bool targeted = has_target(config);
  if (!asked && !targeted)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: has no target, so nothing tells which change helps; give "
                            "--target-loss or stop.target_loss, or ask for a change",
                            options.file));
  RUBATO_ASSIGN(auto changes,
                asked ? whatif::asked_changes(base, options.asked)
                      : Result<std::vector<whatif::Change>>(whatif::single_changes(base)));
  RUBATO_ASSIGN(const auto variants, variants_of(base, changes, asked));
  const int seeds = options.seeds.value_or(asked ? kSeedsOfChanges : kSeedsOfRanking);
  RUBATO_ASSIGN(const auto records,
                run_variants(variants.all,
                             {.seeds = seeds, .threads = options.threads, .quiet = options.quiet},
                             data, stop));
  std::vector<whatif::Forecast> rows;
  for (std::size_t i = 0; i < records.size(); ++i)
    rows.push_back(whatif::forecast(variants.all[i].name, records[i]));
  const whatif::Forecast first = std::move(rows.front());
  rows.erase(rows.begin());
  std::vector<whatif::Effect> effects;
  for (const whatif::Forecast& row : rows) effects.push_back(whatif::effect(first, row));
  const std::string target = targets_text(config.stop.target_loss, config.stop.target_accuracy,
                                          config.stop.class_targets, config.dataset.task);
  const std::string workers = fmt::format(
      "{} under {}", counted(static_cast<std::uint64_t>(config.worker_count()), "worker"),
      report::model_title(base.sync));
  const std::string runs = counted(static_cast<std::uint64_t>(seeds), "seed");
  if (!options.html.empty()) {
    auto page = whatif::forecast_page(first, rows, effects, targeted);
    page.cluster = config.name;
    page.command = options.command;
    page.facts = {workers};
    if (targeted) page.facts.push_back("target: " + target);
    page.facts.insert(page.facts.end(), {runs, "virtual time"});
    RUBATO_TRY(write_file(options.html, report::times_html(page)));
  }
  if (options.json) {
    print_forecasts(first, rows, effects);
    return {};
  }
  const std::size_t width = text_columns(stdout);
  print_text("{}: {}, {}{}, virtual time\n\n", config.name, workers,
             targeted ? fmt::format("target {}, ", target) : "", runs);
  print_text("{}\n\n", whatif::forecast_table(first, rows, targeted, width));
  if (!asked) {
    print_text("What would help most:\n{}", whatif::ranking_text(rows, effects, width));
    return {};
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    print_text(
        "{}\n",
        wrapped(targeted
                    ? fmt::format("{}: {}{}; {}.", rows[i].name, whatif::effect_text(effects[i]),
                                  effects[i].sure || effects[i].nothing ? "" : " (maybe by chance)",
                                  effects[i].reason)
                    : fmt::format("{}: {}.", rows[i].name, effects[i].reason),
                width, 3));
  return {};
}

}  // namespace

int what_if(const WhatIf& options, std::stop_token stop) {
  return exit_code(whatif_checked(options, stop));
}

}  // namespace rubato::cli
