#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/hosted_run.hpp"
#include "cli/interrupt.hpp"
#include "cli/run_place.hpp"
#include "cli/serial_runs.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/data_facts.hpp"
#include "cluster/energy.hpp"
#include "cluster/own_data.hpp"
#include "emulation/loop_processes.hpp"
#include "emulation/virtual_cluster.hpp"
#include "nodes/loop_command.hpp"
#include "nodes/loop_launcher.hpp"
#include "nodes/profile.hpp"
#include "nodes/real_cluster.hpp"
#include "report/findings.hpp"
#include "report/live/live_page.hpp"
#include "report/outputs.hpp"
#include "report/progress.hpp"
#include "report/run_directory.hpp"
#include "sync/factory.hpp"
#include "train/device.hpp"

namespace rubato::cli {
namespace {

std::string outcome_text(const RunRecord& record) {
  if (record.time_to_target_seconds)
    return fmt::format("target after {}, {}", duration_text(*record.time_to_target_seconds),
                       counted(record.steps, "step"));
  std::string text = fmt::format("{} after {}", record.stop_reason, duration_text(record.seconds));
  if (const auto* spoiling = report::finding::spoiling(record))
    return fmt::format("{}, {}", text, spoiling->words);
  text += record.measured() ? fmt::format(", loss {:.4f}", record.final_loss)
                            : ", " + counted(record.steps, "step");
  return text;
}

std::string run_label(const std::string& model, std::uint64_t seed) {
  return fmt::format("{} seed {}", report::model_title(model), seed);
}

std::function<void(const scheduler::Scheduler&, Instant)> watch_of(report::LivePage* page) {
  if (!page) return {};
  return [page](const scheduler::Scheduler& scheduler, Instant now) {
    page->offer([&] { return report::LiveRun{scheduler.record(), scheduler.status(now)}; });
  };
}

// Runs every model with every seed into `comparison`, until done or stopped.
Result<void> run_all(const CompareOptions& options, const cluster::ClusterConfig& config,
                     const std::vector<std::string>& models, const std::string& out,
                     std::stop_token stop, report::LivePage* page, report::Comparison& comparison) {
  RUBATO_ASSIGN(const auto trace, nodes::open_profile(options.profile, TraceClock::Own));
  train::DataSplit data;
  std::shared_ptr<emulation::LoopLauncher> loops;
  if (config.own_model()) {
    RUBATO_ASSIGN(loops, nodes::make_launcher(config));
  } else if (!config.timing_only()) {
    RUBATO_ASSIGN(
        data, nodes::interruptible(process_stop(stop), [&] { return cluster::load_data(config); }));
    for (const auto& hint : data.hints) log_warning(hint);
    train::log_device(config.worker_device);
  }
  RUBATO_TRY(report::begin_log(comparison, out));  // a run that cannot begin leaves nothing
  report::warn_early(config, models, cluster::data_facts(config, config.seed, data));
  const int threads = threads_of(options.threads);
  std::optional<report::Progress> progress;
  if (!options.quiet)
    progress.emplace(stderr, progress_options(config, comparison.planned_runs, false),
                     steady_now());
  for (int i = 0; i < options.seeds; ++i) {
    for (const auto& model : models) {
      const std::uint64_t seed = config.seed + static_cast<std::uint64_t>(i);
      if (progress) progress->begin_run(run_label(model, seed), steady_now());
      emulation::VirtualOptions run;
      run.sync = model;
      run.seed = seed;
      run.threads = threads;
      run.trace = trace.get();
      run.path = true;
      run.progress = [&](const emulation::VirtualProgress& at) {
        if (progress)
          progress->update({.seconds = at.seconds,
                            .loss = at.smoothed_loss,
                            .steps = at.steps,
                            .left = at.seconds_left},
                           steady_now());
      };
      run.watch = watch_of(page);
      run.stop = stop;
      run.loops = loops;
      run.curves = nodes::curves_directory(config, out);
      if (options.save) {
        const auto directory = fmt::format("{}/{}-{}", out, model, seed);
        RUBATO_TRY(report::make_output_directory(directory));
        RUBATO_TRY(cluster::check_kept(config, directory));
        run.saver = [&config, &data, directory](const cluster::ClusterPlan& plan) {
          return std::make_unique<cluster::ModelSaver>(directory, config, plan, data.schema,
                                                       Duration{});
        };
      }
      RUBATO_ASSIGN(auto record, run_virtual(config, data, run));
      cluster::add_energy(config, record);
      record.findings =
          report::run_findings(config, record, cluster::data_facts(config, seed, data));
      if (trace) trace->free_lanes();
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      if (progress) progress->end_run(outcome_text(record), steady_now());
      RUBATO_TRY(report::add_to_log(record, out));
      if (page) page->add(record);
      comparison.runs.push_back(std::move(record));
    }
  }
  return {};
}

// The same as real processes, one cluster after the other.
Result<void> run_all_real(const CompareOptions& options, cluster::ClusterConfig config,
                          const std::vector<std::string>& models, const std::string& out,
                          const std::stop_token& stop, report::LivePage* page,
                          report::Comparison& comparison) {
  nodes::Throttle throttle = options.throttle;
  throttle.on = true;
  RUBATO_TRY(nodes::interruptible(process_stop(stop),
                                  [&] { return nodes::check_links(config, throttle); }));
  RUBATO_TRY(report::begin_log(comparison, out));
  const InOrder in_order;
  RUBATO_ASSIGN(const auto profile, nodes::ClusterProfile::open({}));
  const std::uint64_t first = config.seed;
  std::optional<report::Progress> progress;
  if (!options.quiet)
    progress.emplace(stderr, progress_options(config, comparison.planned_runs, true), steady_now());
  for (const auto& model : models) {
    for (int i = 0; i < options.seeds; ++i) {
      config.seed = first + static_cast<std::uint64_t>(i);
      const auto directory = fmt::format("{}/{}-{}", out, model, config.seed);
      RUBATO_TRY(report::make_output_directory(directory));
      ShownRun shown(config, {.sync = model,
                              .progress = progress ? &*progress : nullptr,
                              .label = run_label(model, config.seed),
                              .quiet = options.quiet,
                              .page = page});
      const nodes::RealRun run{.sync = model,
                               .out = directory,
                               .throttle = throttle,
                               .profile = *profile,
                               .watch = shown.watch(),
                               .curves = nodes::curves_directory(config, out)};
      RUBATO_ASSIGN(auto hosted, nodes::run_real(config, run, process_stop(stop)));
      add_findings(config, hosted);
      if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      if (hosted.record.steps == 0)
        return fail(ErrorCode::Io, fmt::format("{}, seed {}: no worker made a step: {}",
                                               report::model_title(model), config.seed,
                                               hosted.record.stop_reason));
      if (progress) progress->end_run(outcome_text(hosted.record), steady_now());
      RUBATO_TRY(report::add_to_log(hosted.record, out));
      if (page) page->add(hosted.record);
      comparison.runs.push_back(std::move(hosted.record));
    }
  }
  return {};
}

Result<void> compare_checked(const CompareOptions& options, std::stop_token stop) {
  RUBATO_ASSIGN(auto config, cluster::load_cluster(options.file));
  set_log_quiet(options.quiet);
  if (options.target_loss) config.stop.target_loss = options.target_loss;
  std::vector<std::string> models = options.sync;
  if (models.empty()) models = sync::compared_models();
  RUBATO_TRY(cluster::require_step_times(config));
  if (options.bounds) RUBATO_TRY(require_bounds(config));
  for (const auto& model : models) RUBATO_TRY(cluster::check_sync(config, model));
  if (options.save) RUBATO_TRY(cluster::require_trainable(config));
  RUBATO_TRY(nodes::use_loop(config, options.module, options.loop));
  if (config.own_model()) RUBATO_TRY(nodes::loop_words(config));
  if (options.real) RUBATO_TRY(nodes::check_real(config, "rubato compare --real"));
  RUBATO_ASSIGN(const auto place, RunPlace::make(options.place, config.name, options.command));
  const std::string& out = place.directory();
  report::Comparison comparison =
      report::start_comparison(config, models, options.command, !options.real);
  comparison.planned_runs = models.size() * static_cast<std::size_t>(options.seeds);
  if (options.bounds) {
    RunData data;
    RUBATO_ASSIGN(
        comparison.linear_bound_seconds,
        run_linear_bound(
            config, {.seeds = options.seeds, .threads = options.threads, .quiet = options.quiet},
            data, stop));
  }
  RUBATO_ASSIGN(const auto page, report::open_live_page(options.http, comparison, models.front(),
                                                        config.seed, report::link_texts(config)));
  auto done = options.real
                  ? run_all_real(options, config, models, out, stop, page.get(), comparison)
                  : run_all(options, config, models, out, stop, page.get(), comparison);
  report::note_busy(comparison);
  // What finished before an interrupt is still worth having.
  if (!done)
    comparison.partial =
        fmt::format("This is a part: the command was interrupted after {} of {}.",
                    comparison.runs.size(), counted(comparison.planned_runs, "run"));
  if (done || (done.error().code == ErrorCode::Stopped && !comparison.runs.empty())) {
    const InOrder in_order;
    RUBATO_TRY(report::write_outputs(comparison, out, options.json));
    if (page) page->end(absolute_path(out + "/report.html"));
  } else if (page) {
    page->end({});
  }
  std::error_code none;
  if (done && options.save && !options.json && std::filesystem::is_directory(out, none))
    print_text("Models: {}/<sync model>-<seed>/model.safetensors\n", absolute_path(out));
  const std::string target = report::target_text(comparison);
  const auto reached = [](const RunRecord& run) { return run.time_to_target_seconds.has_value(); };
  if (done && !target.empty() && !options.missed_ok &&
      std::ranges::none_of(comparison.runs, reached))
    return fail(ErrorCode::Missed,
                fmt::format("no model reached the target, {}, in any run", target));
  return done;
}

}  // namespace

int compare(const CompareOptions& options, std::stop_token stop) {
  return exit_code(compare_checked(options, stop));
}

}  // namespace rubato::cli
