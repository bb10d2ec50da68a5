#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/quote.hpp"
#include "base/shipped.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "base/words.hpp"
#include "cli/command_files.hpp"
#include "cli/commands.hpp"
#include "cli/interrupt.hpp"
#include "cli/run_data.hpp"
#include "cli/serial_runs.hpp"
#include "cluster/class_weights.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/data_facts.hpp"
#include "cluster/file_kind.hpp"
#include "cluster/model_start.hpp"
#include "emulation/virtual_cluster.hpp"
#include "report/findings.hpp"
#include "report/host_info.hpp"
#include "report/outputs.hpp"
#include "report/study/fingerprint.hpp"
#include "report/study/journal.hpp"
#include "report/study/live_study.hpp"
#include "report/study/runner.hpp"
#include "report/study/study_directory.hpp"
#include "report/study/study_files.hpp"
#include "report/study/study_progress.hpp"
#include "train/device.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

// One study on its way.
struct Running {
  report::StudyResults results;
  std::string directory;
  std::unique_ptr<report::Journal> journal;
  cluster::ClusterSource cluster;
  report::StudyPart part;
  std::vector<const LoadedData*> data;  // by variant
  std::size_t left = 0;                 // runs to do
  bool written = false;
};

// Where a result belongs.
struct Place {
  std::size_t variant = 0;
  std::size_t seed = 0;  // index
};

struct Job {
  std::size_t study = 0;
  std::vector<Place> places;  // contenders that come to the same have one run
  std::string key;
};

Result<std::vector<std::string>> study_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.path().extension() == ".toml") found.push_back(entry.path().string());
    if (found.empty())
      return fail(
          ErrorCode::BadInput,
          fmt::format("{}: holds no .toml file; name a study file, or a directory of them", path));
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Result<Running> load_study(const std::string& file, std::optional<int> seeds) {
  auto text = read_file(file);
  if (!text)
    return fail(ErrorCode::BadInput, text.error().message +
                                         "; write one, or copy an example from " +
                                         (shipped_directory() / "studies/").string());
  auto parsed = report::parse_study(*text, file);
  if (!parsed) {
    const std::string other = cluster::other_kind(file, *text, cluster::Wanted::Study);
    return other.empty() ? tl::unexpected<Error>(parsed.error()) : fail(ErrorCode::BadInput, other);
  }
  report::Study study = std::move(*parsed);
  if (seeds) study.seeds = *seeds;
  Running running;
  RUBATO_ASSIGN(running.cluster, cluster::read_cluster(study.cluster));
  RUBATO_ASSIGN(running.results.plan, report::make_plan(std::move(study), running.cluster));
  return running;
}

// What a study writes is in a directory of studies, and is nothing that it reads.
void add_outputs(const std::string& directory, CommandFiles& files) {
  for (const char* name : {"study.json", "cells.jsonl", "results.json", "runs.csv", "report.html",
                           "time.svg", "details.svg"})
    files.outputs.push_back({"--out", (fs::path(directory) / name).string(), Kind::Study});
  files.made = directory;
}

// A study's own directory, so that no two studies meet in one. Journals are opened by
// open_journals().
Result<std::vector<Running>> read_studies(const StudyOptions& options,
                                          const std::vector<std::string>& files) {
  std::vector<Running> studies;
  std::set<std::string> names;
  for (const std::string& file : files) {
    RUBATO_ASSIGN(Running running, load_study(file, options.seeds));
    const report::StudyPlan& plan = running.results.plan;
    if (!names.insert(plan.study.name).second)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: another study is called {}, too", file, plan.study.name));
    const bool alone = files.size() == 1 && !options.out.empty();
    running.directory =
        alone ? options.out
              : (fs::path(options.out.empty() ? "out" : options.out) / plan.study.name).string();
    if (!options.part.empty()) {
      RUBATO_ASSIGN(running.part, report::parse_part(options.part));
      running.directory = (fs::path(running.directory) / report::part_name(running.part)).string();
    }
    running.results.cells.assign(
        plan.variants.size(),
        std::vector<std::optional<report::CellResult>>(static_cast<std::size_t>(plan.study.seeds)));
    running.results.host = report::read_host_info();
    // Without the options that change no result, so that all parts and a whole run say the same.
    running.results.command =
        fmt::format("rubato study {}{}", shell_word(file),
                    options.seeds ? fmt::format(" --seeds {}", *options.seeds) : "");
    studies.push_back(std::move(running));
  }
  for (const Running& running : studies) {
    CommandFiles written{.clusters = {running.results.plan.study.cluster}, .others = files};
    add_outputs(running.directory, written);
    RUBATO_TRY(check_files(written));
  }
  return studies;
}

Result<void> open_journals(std::vector<Running>& studies) {
  for (Running& running : studies) {
    RUBATO_TRY(report::make_output_directory(running.directory));
    RUBATO_ASSIGN(report::Journal journal, report::Journal::open(running.directory));
    running.journal = std::make_unique<report::Journal>(std::move(journal));
  }
  return {};
}

// Whether the cluster can be, and hold these data.
Result<void> check_cluster(const cluster::ClusterConfig& config, const std::string& sync,
                           const train::DataSplit& data) {
  if (config.timing_only()) {
    RUBATO_TRY(cluster::make_timing_plan(config, sync, config.seed));
    return {};
  }
  if (config.own_model()) return cluster::check_sync(config, sync);
  RUBATO_TRY(cluster::check_target(config, data));
  RUBATO_TRY(cluster::check_meaning(config, data.schema));
  const train::Dataset& train = data.train;
  RUBATO_ASSIGN(const auto cluster,
                cluster::make_plan(config, sync, config.seed, train.shape, train.classes));
  RUBATO_TRY(cluster::class_weights(config, data.schema));
  RUBATO_TRY(cluster::plan_samples(config, cluster, data));
  return {};
}

// Loads what the studies train on, each kind once, and sees whether every cluster can hold it.
Result<void> load_data(std::vector<Running>& studies, RunData& loaded) {
  for (Running& running : studies) {
    const report::StudyPlan& plan = running.results.plan;
    for (const report::Variant& variant : plan.variants) {
      RUBATO_ASSIGN(const LoadedData* data, loaded.of(variant.config));
      running.data.push_back(data);
      if (variant.contender != 0) continue;  // contenders share data and model
      const auto possible =
          check_cluster(variant.config, plan.study.contenders[0].sync, data->split);
      if (!possible)
        return fail(possible.error().code,
                    fmt::format("{}: {}: {}", plan.study.file,
                                report::point_text(plan.study, plan.points[variant.point]),
                                possible.error().message));
    }
  }
  return {};
}

// The linear bound of every point. Known where the same program has computed that of the same study
// in this directory; else serial training runs now. A point without a bound has a warning.
Result<std::vector<std::optional<double>>> linear_bounds(const report::KeptStudy& kept,
                                                         const std::string& directory,
                                                         const StudyOptions& options,
                                                         RunData& loaded,
                                                         const std::stop_token& stop) {
  const report::StudyPlan& plan = kept.results.plan;
  const auto before = report::read_kept_study(directory);
  if (before && before->build == kept.build && before->keys == kept.keys &&
      !before->results.linear_bounds.empty())
    return before->results.linear_bounds;
  std::vector<std::optional<double>> bounds;
  for (std::size_t point = 0; point < plan.points.size(); ++point) {
    const cluster::ClusterConfig& config = report::first_variant(plan, point).config;
    auto bound = require_bounds(config).and_then([&] {
      return run_linear_bound(
          config, {.seeds = plan.study.seeds, .threads = options.threads, .quiet = options.quiet},
          loaded, stop);
    });
    if (!bound && bound.error().code != ErrorCode::BadInput)
      return tl::unexpected<Error>(std::move(bound.error()));
    if (!bound) log_warning(bound.error().message);
    bounds.push_back(bound ? std::optional(*bound) : std::nullopt);
  }
  return bounds;
}

// All runs of a study by key, in the order in which they run: seed by seed, so that the first
// results cover the whole grid. Writes study.json, for which `build` made the keys.
Result<std::vector<Job>> all_runs(Running& running, std::size_t study, const std::string& build,
                                  const StudyOptions& options, RunData& loaded,
                                  const std::stop_token& stop) {
  const report::StudyPlan& plan = running.results.plan;
  report::KeptStudy kept{running.cluster, running.results, {}, build, options.any_build};
  kept.keys.resize(plan.variants.size());
  std::vector<Job> jobs;
  std::map<std::string, std::size_t> known;
  for (std::size_t seed = 0; seed < static_cast<std::size_t>(plan.study.seeds); ++seed) {
    for (std::size_t v = 0; v < plan.variants.size(); ++v) {
      const report::Variant& variant = plan.variants[v];
      const std::string key =
          report::run_key(variant, plan.study.contenders[variant.contender].sync,
                          variant.config.seed + seed, running.data[v]->fingerprint);
      kept.keys[v].push_back(key);
      const auto [same, added] = known.emplace(key, jobs.size());
      if (added) jobs.push_back({study, {}, key});
      jobs[same->second].places.push_back({v, seed});
    }
  }
  if (plan.study.bounds) {
    RUBATO_ASSIGN(kept.results.linear_bounds,
                  linear_bounds(kept, running.directory, options, loaded, stop));
    running.results.linear_bounds = kept.results.linear_bounds;
  }
  RUBATO_TRY(report::write_kept_study(kept, running.directory));
  return jobs;
}

// The runs of this part that no journal holds, study by study. `kept`: how many the journals do
// hold.
Result<std::vector<Job>> jobs_to_do(std::vector<Running>& studies, const std::string& build,
                                    const StudyOptions& options, RunData& loaded,
                                    const std::stop_token& stop, std::size_t& kept) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < studies.size(); ++i) {
    Running& running = studies[i];
    RUBATO_ASSIGN(auto all, all_runs(running, i, build, options, loaded, stop));
    const auto ours = report::runs_of(running.part, all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (const report::CellResult* known =
              running.journal->find(all[k].key, build, options.any_build)) {
        for (const Place& place : all[k].places)
          running.results.cells[place.variant][place.seed] = *known;
        kept += all[k].places.size();
      } else if (ours[k]) {
        jobs.push_back(std::move(all[k]));
        ++running.left;
      }
    }
  }
  return jobs;
}

// What is ahead, a line for each study: how many runs, and about how long they take.
void log_plan(const std::vector<Running>& studies, int threads) {
  double seconds = 0;
  bool known = true;
  const auto duration = [&](double of_a_core) {
    return fmt::format("about {}", duration_text(std::ceil(of_a_core / threads)));
  };
  for (const Running& running : studies) {
    const report::Study& study = running.results.plan.study;
    if (running.left == 0) continue;
    const double cost = study.run_seconds.value_or(0) * static_cast<double>(running.left);
    seconds += cost;
    known = known && study.run_seconds;
    log_info(fmt::format(
        "{}: {} run{} to do, {}", study.name, running.left, running.left == 1 ? "" : "s",
        study.run_seconds ? duration(cost) : "how long shows when the first of them end"));
  }
  if (studies.size() > 1 && known && seconds > 0) log_info("all of them: " + duration(seconds));
}

// Once for all runs that train.
void log_devices(const std::vector<Running>& studies, const std::vector<Job>& jobs) {
  std::set<std::string> devices;
  for (const Job& job : jobs) {
    const report::StudyPlan& plan = studies[job.study].results.plan;
    const auto& config = plan.variants[job.places.front().variant].config;
    if (!config.timing_only()) devices.insert(config.worker_device);
  }
  for (const std::string& device : devices) train::log_device(device);
}

std::string run_label(const Running& running, const Job& job) {
  const report::StudyPlan& plan = running.results.plan;
  const Place& place = job.places.front();
  const report::Variant& variant = plan.variants[place.variant];
  const report::Contender& contender = plan.study.contenders[variant.contender];
  const std::string grid = report::point_text(plan.study, plan.points[variant.point]);
  const std::string trial = report::trial_text(contender, variant.trial);
  return fmt::format("{}: {}{}{}{}{} seed {}", plan.study.name, grid, grid.empty() ? "" : ", ",
                     contender.name, trial.empty() ? "" : " ", trial,
                     variant.config.seed + place.seed);
}

std::string outcome_text(const report::CellResult& result) {
  if (result.time_to_target)
    return fmt::format("target after {}", duration_text(*result.time_to_target));
  const std::string got = result.measured() ? "loss " + loss_text(result.final_loss)
                                            : count_text(result.steps) + " steps";
  return fmt::format("{} after {}, {}", result.diverged ? "diverged" : result.stop_reason,
                     duration_text(result.seconds), got);
}

Result<report::CellResult> compute(const Running& running, const Job& job,
                                   const std::stop_token& stop) {
  const report::StudyPlan& plan = running.results.plan;
  const Place& place = job.places.front();
  const report::Variant& variant = plan.variants[place.variant];
  emulation::VirtualOptions options;
  options.sync = plan.study.contenders[variant.contender].sync;
  options.seed = variant.config.seed + place.seed;
  options.threads = 1;
  options.loops = running.data[place.variant]->loops;
  options.stop = stop;
  const Instant begin = steady_now();
  auto record = run_virtual(variant.config, running.data[place.variant]->split, options);
  if (!record)
    return fail(record.error().code,
                fmt::format("{}: {}", run_label(running, job), record.error().message));
  const double cost = (steady_now() - begin).seconds();
  record->findings =
      report::run_findings(variant.config, *record,
                           {.outputs = cluster::outputs_of(running.data[place.variant]->split)});
  return report::cell_result(*record, cost);
}

Result<void> write_study(Running& running) {
  auto written = report::write_study_files(running.results, running.directory);
  running.written = written.has_value();
  return written;
}

// `page`: empty: there is none.
void print_study(const report::StudyResults& results, const std::string& page, bool json) {
  if (json) return print_json(report::study_json(results, report::summarize(results)));
  const report::Study& study = results.plan.study;
  const std::size_t missing = report::missing_runs(results);
  const std::size_t planned = results.plan.run_count();
  print_text("{}\n{}\n{}", study.question.empty() ? study.name : study.question,
             report::study_table(results, report::summarize(results), text_columns(stdout)),
             missing > 0 ? fmt::format("This is a part: {} of {}.\n", planned - missing,
                                       counted(planned, "run"))
                         : "");
  report::print_place("Report: ", page);
  print_text("\n");
}

std::string page_of(const std::string& directory) {
  return (fs::path(directory) / "report.html").string();
}

Result<void> show_study(const report::KeptStudy& study, const std::string& directory, bool json) {
  RUBATO_TRY(report::write_study_files(study.results, directory));
  print_study(study.results, page_of(directory), json);
  return {};
}

bool has_run(const report::StudyResults& results) {
  return std::ranges::any_of(results.cells, [](const auto& seeds) {
    return std::ranges::any_of(seeds, [](const auto& cell) { return cell.has_value(); });
  });
}

Result<void> merge_checked(const StudyOptions& options) {
  if (options.out.empty())
    return fail(ErrorCode::BadInput, "--merge needs --out DIR, where the merged study goes");
  CommandFiles written{.others = options.files};
  add_outputs(options.out, written);
  RUBATO_TRY(check_files(written));
  RUBATO_TRY(report::make_output_directory(options.out));
  RUBATO_ASSIGN(const report::KeptStudy study,
                report::merge_studies(options.files, options.out, options.any_build));
  if (!has_run(study.results))
    return fail(ErrorCode::BadInput, fmt::format("{}: no run has finished yet", options.files[0]));
  RUBATO_TRY(show_study(study, options.out, options.json));
  const std::size_t missing = report::missing_runs(study.results);
  if (missing == 0) return {};
  return fail(ErrorCode::Io, fmt::format("{} of {} missing; run the other parts, then merge again",
                                         missing, counted(study.results.plan.run_count(), "run")));
}

Result<void> run_all(const StudyOptions& options, std::vector<Running>& studies,
                     const std::stop_token& stop) {
  RunData loaded;
  RUBATO_TRY(nodes::interruptible(process_stop(stop), [&] { return load_data(studies, loaded); }));
  RUBATO_TRY(open_journals(studies));  // a study that cannot begin leaves nothing
  const std::string build =
      fmt::format("{} {:016x}", report::version(), report::program_fingerprint());
  std::size_t kept = 0;
  RUBATO_ASSIGN(const std::vector<Job> jobs,
                jobs_to_do(studies, build, options, loaded, stop, kept));
  const int threads = threads_of(options.threads);
  log_plan(studies, threads);
  log_devices(studies, jobs);

  std::vector<std::size_t> first_variant;  // of each study, among all variants
  for (std::size_t count = 0; const Running& running : studies) {
    first_variant.push_back(count);
    count += running.results.plan.variants.size();
  }
  std::vector<std::size_t> variants;
  variants.reserve(jobs.size());
  for (const Job& job : jobs)
    variants.push_back(first_variant[job.study] + job.places.front().variant);
  std::optional<report::StudyProgress> progress;
  if (!options.quiet) {
    progress.emplace(stderr, variants, kept, threads);
    for (std::size_t i = 0; i < studies.size(); ++i)
      for (std::size_t v = 0; v < studies[i].results.cells.size(); ++v)
        for (const auto& cell : studies[i].results.cells[v])
          if (cell) progress->know(first_variant[i] + v, cell->cost_seconds);
  }
  const std::size_t planned = std::accumulate(studies.begin(), studies.end(), std::size_t{0},
                                              [](std::size_t sum, const Running& running) {
                                                return sum + running.results.plan.run_count();
                                              });
  std::unique_ptr<report::LiveStudy> page;
  if (!options.http.empty()) {
    RUBATO_ASSIGN(page, report::LiveStudy::open(options.http, studies.front().results, planned));
    log_info("live page: " + page->url());
  }
  std::size_t ended = kept;
  std::size_t shown = 0;  // the study of the last result
  auto done = report::run_jobs(
      jobs.size(), threads, stop,
      [&](std::size_t job, const std::stop_token& token) {
        return compute(studies[jobs[job].study], jobs[job], token);
      },
      [&](std::size_t i, const report::CellResult& result) -> Result<void> {
        const Job& job = jobs[i];
        Running& running = studies[job.study];
        RUBATO_TRY(running.journal->add({job.key, build, result}));
        if (progress)
          progress->end_run(i, run_label(running, job), outcome_text(result), result.cost_seconds);
        for (const Place& place : job.places)
          running.results.cells[place.variant][place.seed] = result;
        ended += job.places.size();
        shown = job.study;
        if (page) page->offer(running.results, ended);
        if (--running.left == 0) return write_study(running);
        return {};
      });
  if (page) page->end(studies[shown].results, ended);
  return done;
}

Result<void> study_checked(const StudyOptions& options, const std::stop_token& stop) {
  RUBATO_ASSIGN(const auto files, study_files(options.files));
  RUBATO_ASSIGN(auto studies, read_studies(options, files));
  set_log_quiet(options.quiet);
  auto done = run_all(options, studies, stop);
  const InOrder in_order;
  // What has finished is worth having, whatever ended the rest.
  for (Running& running : studies) {
    if (!has_run(running.results)) continue;
    const auto written = running.written ? Result<void>() : write_study(running);
    print_study(running.results, written ? page_of(running.directory) : "", options.json);
    if (!written && done) done = written;
  }
  return done;
}

}  // namespace

Result<void> report_study(const std::string& directory, bool json) {
  RUBATO_ASSIGN(report::KeptStudy study, report::read_kept_study(directory));
  RUBATO_ASSIGN(const report::Journal journal, report::Journal::open(directory));
  report::fill_cells(study, journal);
  if (!has_run(study.results))
    return fail(ErrorCode::BadInput, fmt::format("{}: no run has finished yet", directory));
  return show_study(study, directory, json);
}

int study(const StudyOptions& options, std::stop_token stop) {
  return exit_code(options.merge ? merge_checked(options) : study_checked(options, stop));
}

}  // namespace rubato::cli
