#include "cli/hosted_run.hpp"
#include "base/print.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/words.hpp"
#include "report/comparison.hpp"
#include "report/findings.hpp"
#include "report/outputs.hpp"
#include "report/run_directory.hpp"

namespace rubato::cli {
namespace {

// Whether the run ended because its criterion held, rather than for lack of a server or of workers.
bool criterion_held(const RunRecord& record, const cluster::StopConfig& stop) {
  return record.time_to_target_seconds ||
         (stop.max_seconds && record.seconds >= *stop.max_seconds) ||
         (stop.max_steps && record.steps >= *stop.max_steps);
}

// The results in `directory`, if they are whole and of this run's end.
std::optional<report::Comparison> results_of(const RunRecord& record,
                                             const std::string& directory) {
  if (!std::filesystem::exists(directory + "/report.html")) return std::nullopt;  // written last
  auto stored = report::read_run_directory(directory);
  if (!stored || stored->runs.size() != 1) return std::nullopt;
  const RunRecord& run = stored->runs.front();
  // Steps since the last word of a worker are in the results, and not in the journal.
  if (run.seconds != record.seconds || run.stop_reason != record.stop_reason) return std::nullopt;
  return std::move(*stored);
}

}  // namespace

report::ProgressOptions progress_options(const cluster::ClusterConfig& config,
                                         std::size_t run_count, bool real_time) {
  return {.run_count = run_count,
          .target_loss = config.stop.target_loss,
          .target_accuracy = config.stop.target_accuracy,
          .task = config.dataset.task,
          .max_seconds = config.stop.max_seconds,
          .max_steps = config.stop.max_steps,
          .real_time = real_time};
}

nodes::Watch ShownRun::watch() {
  return {
      .on_data =
          [this](const cluster::DataFacts& data) {
            report::warn_early(config_, {options_.sync}, data);
          },
      .on_turn =
          [this](scheduler::DurableScheduler& scheduler) {
            if (options_.page)
              options_.page->offer([&] {
                return report::LiveRun{scheduler.core().record(), scheduler.status(steady_now())};
              });
            show_progress(scheduler);
          }};
}

void ShownRun::show_progress(const scheduler::DurableScheduler& scheduler) {
  const Instant now = steady_now();
  if (!progress_ && !options_.quiet)
    progress_ = &own_progress_.emplace(stderr, progress_options(config_, 1, true), now);
  if (!progress_ || !scheduler.started()) return;
  if (!running_)
    progress_->begin_run(
        options_.label.empty() ? report::model_title(options_.sync) : options_.label, now);
  running_ = true;
  const auto members = scheduler.core().members();
  const auto listed = static_cast<std::uint64_t>(config_.worker_count());
  progress_->update(
      {.seconds = (now - *scheduler.started()).seconds(),
       .loss = scheduler.core().smoothed_loss(),
       .accuracy = scheduler.core().smoothed_accuracy(),
       .steps = scheduler.core().steps(),
       .left = scheduler.seconds_left(now),
       .members = config_.open ? counted(members, "worker")
                               : fmt::format("{} of {}", members, counted(listed, "worker"))},
      now);
  if (scheduler.core().over()) own_progress_.reset();
}

void add_findings(const cluster::ClusterConfig& config, nodes::HostedRun& run) {
  run.record.findings = report::run_findings(config, run.record, run.data);
}

Result<void> conclude(const cluster::ClusterConfig& config, nodes::HostedRun run,
                      const Conclusion& options, const std::stop_token& stop) {
  add_findings(config, run);
  RunRecord& record = run.record;
  const bool trained = record.steps > 0;
  const bool complete = criterion_held(record, config.stop);
  const bool reached = record.time_to_target_seconds.has_value();
  const std::string reason = record.stop_reason;
  std::string target;
  if (trained) {
    report::Comparison comparison =
        report::start_comparison(config, {record.sync}, options.command, false);
    comparison.note = options.note;
    target = report::target_text(comparison);
    if (!complete)
      comparison.partial =
          "This is a part: the run ended before its stop criterion held: " + reason;
    if (options.page) options.page->add(record);
    const auto stored = run.had_ended ? results_of(record, options.out) : std::nullopt;
    comparison.runs.push_back(std::move(record));
    report::note_busy(comparison);
    if (stored) {
      log_info(fmt::format("the run has ended: {}; its results in {} stay as they are", reason,
                           options.out));
      report::print_comparison(*stored, options.out + "/report.html", options.json);
    } else {
      RUBATO_TRY(report::write_outputs(comparison, options.out, options.json));
    }
    if (options.page) options.page->end(absolute_path(options.out + "/report.html"));
    if (!options.json) report::print_place("Model:  ", run.model);
  }
  if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
  if (!trained) return fail(ErrorCode::Io, "no worker made a step: " + reason);
  if (!complete) return fail(ErrorCode::Io, "training ended early: " + reason);
  if (!target.empty() && !reached && !options.missed_ok)
    return fail(ErrorCode::Missed,
                fmt::format("the run ended without reaching its target, {}: {}", target, reason));
  return {};
}

}  // namespace rubato::cli
