#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/shipped.hpp"
#include "base/time.hpp"
#include "cli/commands.hpp"
#include "cli/host_info.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/study/fingerprint.hpp"
#include "cli/study/journal.hpp"
#include "cli/study/pictures.hpp"
#include "cli/study/runner.hpp"
#include "cli/study/study_files.hpp"
#include "cli/study/study_progress.hpp"
#include "cli/study/study_report.hpp"
#include "cli/text.hpp"
#include "cluster/cluster_plan.hpp"
#include "cluster/own_data.hpp"
#include "emulation/virtual_cluster.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

// Data that several clusters share.
struct LoadedData {
  train::DatasetOptions options;
  std::uint64_t seed = 0;
  train::DataSplit split;
  std::uint64_t fingerprint = 0;
};

// One study on its way.
struct Running {
  StudyResults results;
  std::string directory;
  std::unique_ptr<Journal> journal;
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

Result<StudyPlan> load_study(const std::string& file, std::optional<int> seeds) {
  auto text = read_file(file);
  if (!text)
    return fail(ErrorCode::BadInput, text.error().message +
                                         "; write one, or copy an example from " +
                                         (shipped_directory() / "studies/").string());
  RUBATO_ASSIGN(Study study, parse_study(*text, file));
  if (seeds) study.seeds = *seeds;
  RUBATO_ASSIGN(const auto cluster, cluster::read_cluster(study.cluster));
  return make_plan(std::move(study), cluster);
}

// A study's own directory, so that no two studies meet in one.
Result<std::vector<Running>> open_studies(const StudyOptions& options,
                                          const std::vector<std::string>& files) {
  std::vector<Running> studies;
  std::set<std::string> names;
  for (const std::string& file : files) {
    RUBATO_ASSIGN(StudyPlan plan, load_study(file, options.seeds));
    if (!names.insert(plan.study.name).second)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: another study is called {}, too", file, plan.study.name));
    Running running;
    const bool alone = files.size() == 1 && !options.out.empty();
    running.directory =
        alone ? options.out
              : (fs::path(options.out.empty() ? "out" : options.out) / plan.study.name).string();
    running.results.cells.assign(
        plan.variants.size(),
        std::vector<std::optional<CellResult>>(static_cast<std::size_t>(plan.study.seeds)));
    running.results.plan = std::move(plan);
    running.results.host = read_host_info();
    running.results.command = options.command;
    studies.push_back(std::move(running));
  }
  for (Running& running : studies) {
    RUBATO_TRY(make_output_directory(running.directory));
    RUBATO_ASSIGN(Journal journal, Journal::open(running.directory));
    running.journal = std::make_unique<Journal>(std::move(journal));
  }
  return studies;
}

// The data of one cluster, shared with those before it; none where only the timing counts.
Result<const LoadedData*> data_of(const cluster::ClusterConfig& config,
                                  std::vector<std::unique_ptr<LoadedData>>& loaded) {
  static const LoadedData kNone;
  if (config.timing_only()) return &kNone;
  const auto known = std::ranges::find_if(loaded, [&](const auto& data) {
    return !config.own_data() && data->options == config.dataset && data->seed == config.seed;
  });
  if (known != loaded.end()) return known->get();
  RUBATO_ASSIGN(auto split, cluster::load_data(config));
  const std::uint64_t print = fingerprint(split);
  loaded.push_back(std::make_unique<LoadedData>(
      LoadedData{config.dataset, config.seed, std::move(split), print}));
  return loaded.back().get();
}

// Whether the cluster can be, and hold these data.
Result<void> check_cluster(const cluster::ClusterConfig& config, const std::string& sync,
                           const train::DataSplit& data) {
  if (config.timing_only()) {
    RUBATO_TRY(cluster::make_timing_plan(config, sync, config.seed));
    return {};
  }
  RUBATO_TRY(cluster::check_target(config, data));
  const train::Dataset& train = data.train;
  RUBATO_ASSIGN(const auto cluster,
                cluster::make_plan(config, sync, config.seed, train.shape, train.classes));
  RUBATO_TRY(cluster::plan_samples(config, cluster, data));
  return {};
}

// Loads what the studies train on, each kind once, and sees whether every cluster can hold it.
Result<void> load_data(std::vector<Running>& studies,
                       std::vector<std::unique_ptr<LoadedData>>& loaded) {
  for (Running& running : studies) {
    const StudyPlan& plan = running.results.plan;
    for (const Variant& variant : plan.variants) {
      RUBATO_ASSIGN(const LoadedData* data, data_of(variant.config, loaded));
      running.data.push_back(data);
      if (variant.contender != 0) continue;  // contenders share data and model
      const auto possible =
          check_cluster(variant.config, plan.study.contenders[0].sync, data->split);
      if (!possible)
        return fail(possible.error().code,
                    fmt::format("{}: {}: {}", plan.study.file,
                                point_text(plan.study, plan.points[variant.point]),
                                possible.error().message));
    }
  }
  return {};
}

// The runs that no journal holds, study by study, seed by seed, so that the first results cover the
// whole grid. `kept`: how many the journals do hold.
std::vector<Job> missing_runs(std::vector<Running>& studies, const std::string& build,
                              bool any_build, std::size_t& kept) {
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < studies.size(); ++i) {
    Running& running = studies[i];
    const StudyPlan& plan = running.results.plan;
    std::map<std::string, std::size_t> missing;  // jobs of this study by key
    for (std::size_t seed = 0; seed < static_cast<std::size_t>(plan.study.seeds); ++seed) {
      for (std::size_t v = 0; v < plan.variants.size(); ++v) {
        const Variant& variant = plan.variants[v];
        const std::string key = run_key(variant, plan.study.contenders[variant.contender].sync,
                                        variant.config.seed + seed, running.data[v]->fingerprint);
        if (const CellResult* known = running.journal->find(key, build, any_build)) {
          running.results.cells[v][seed] = *known;
          ++kept;
        } else if (const auto [same, added] = missing.emplace(key, jobs.size()); added) {
          jobs.push_back({i, {{v, seed}}, key});
          ++running.left;
        } else {
          jobs[same->second].places.push_back({v, seed});
        }
      }
    }
  }
  return jobs;
}

// Once for all runs that train.
void log_devices(const std::vector<Running>& studies, const std::vector<Job>& jobs) {
  std::set<std::string> devices;
  for (const Job& job : jobs) {
    const StudyPlan& plan = studies[job.study].results.plan;
    const auto& config = plan.variants[job.places.front().variant].config;
    if (!config.timing_only()) devices.insert(config.worker_device);
  }
  for (const std::string& device : devices) log_device(device);
}

std::string run_label(const Running& running, const Job& job) {
  const StudyPlan& plan = running.results.plan;
  const Place& place = job.places.front();
  const Variant& variant = plan.variants[place.variant];
  const Contender& contender = plan.study.contenders[variant.contender];
  const std::string grid = point_text(plan.study, plan.points[variant.point]);
  const std::string trial = trial_text(contender, variant.trial);
  return fmt::format("{}: {}{}{}{}{} seed {}", plan.study.name, grid, grid.empty() ? "" : ", ",
                     contender.name, trial.empty() ? "" : " ", trial,
                     variant.config.seed + place.seed);
}

std::string outcome_text(const CellResult& result) {
  if (result.time_to_target)
    return fmt::format("target after {}", duration_text(*result.time_to_target));
  const std::string got = result.measured() ? "loss " + loss_text(result.final_loss)
                                            : count_text(result.steps) + " steps";
  return fmt::format("{} after {}, {}", result.diverged ? "diverged" : result.stop_reason,
                     duration_text(result.seconds), got);
}

Result<CellResult> compute(const Running& running, const Job& job, const std::stop_token& stop) {
  const StudyPlan& plan = running.results.plan;
  const Place& place = job.places.front();
  const Variant& variant = plan.variants[place.variant];
  emulation::VirtualOptions options;
  options.sync = plan.study.contenders[variant.contender].sync;
  options.seed = variant.config.seed + place.seed;
  options.threads = 1;
  options.stop = stop;
  const Instant begin = steady_now();
  auto record = run_virtual(variant.config, running.data[place.variant]->split, options);
  if (!record)
    return fail(record.error().code,
                fmt::format("{}: {}", run_label(running, job), record.error().message));
  return cell_result(*record, (steady_now() - begin).seconds());
}

Result<void> write_study(Running& running, bool json) {
  running.written = true;
  const fs::path directory(running.directory);
  const auto summaries = summarize(running.results);
  const std::string results = study_json(running.results, summaries);
  RUBATO_TRY(write_file(directory / "results.json", results));
  RUBATO_TRY(write_file(directory / "runs.csv", study_csv(running.results)));
  RUBATO_TRY(write_file(directory / "report.html", study_report(running.results, summaries)));
  if (has_target(running.results.plan))
    RUBATO_TRY(write_file(directory / "time.svg", time_picture(running.results, summaries)));
  RUBATO_TRY(write_file(directory / "details.svg", details_picture(running.results, summaries)));
  if (json) fmt::print("{}", results);
  return {};
}

void print_study(const Running& running) {
  const Study& study = running.results.plan.study;
  fmt::print("{}\n{}\nReport: {}\n\n", study.question.empty() ? study.name : study.question,
             study_table(running.results, summarize(running.results)),
             fs::absolute(fs::path(running.directory) / "report.html").lexically_normal().string());
}

Result<void> run_all(const StudyOptions& options, std::vector<Running>& studies,
                     const std::stop_token& stop) {
  std::vector<std::unique_ptr<LoadedData>> loaded;
  RUBATO_TRY(interruptible(stop, [&] { return load_data(studies, loaded); }));
  const std::string build = fmt::format("{} {:016x}", version(), program_fingerprint());
  std::size_t kept = 0;
  const std::vector<Job> jobs = missing_runs(studies, build, options.any_build, kept);
  log_devices(studies, jobs);
  const int threads = options.threads > 0
                          ? options.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));

  std::vector<std::size_t> first_variant;  // of each study, among all variants
  for (std::size_t count = 0; const Running& running : studies) {
    first_variant.push_back(count);
    count += running.results.plan.variants.size();
  }
  std::vector<std::size_t> variants;
  variants.reserve(jobs.size());
  for (const Job& job : jobs)
    variants.push_back(first_variant[job.study] + job.places.front().variant);
  std::optional<StudyProgress> progress;
  if (!options.quiet) {
    progress.emplace(stderr, variants, kept, threads);
    for (std::size_t i = 0; i < studies.size(); ++i)
      for (std::size_t v = 0; v < studies[i].results.cells.size(); ++v)
        for (const auto& cell : studies[i].results.cells[v])
          if (cell) progress->know(first_variant[i] + v, cell->cost_seconds);
  }
  return run_jobs(
      jobs.size(), threads, stop,
      [&](std::size_t job, const std::stop_token& token) {
        return compute(studies[jobs[job].study], jobs[job], token);
      },
      [&](std::size_t i, const CellResult& result) -> Result<void> {
        const Job& job = jobs[i];
        Running& running = studies[job.study];
        RUBATO_TRY(running.journal->add({job.key, build, result}));
        if (progress)
          progress->end_run(i, run_label(running, job), outcome_text(result), result.cost_seconds);
        for (const Place& place : job.places)
          running.results.cells[place.variant][place.seed] = result;
        if (--running.left == 0) return write_study(running, options.json);
        return {};
      });
}

Result<void> study_checked(const StudyOptions& options, const std::stop_token& stop) {
  RUBATO_ASSIGN(const auto files, study_files(options.files));
  RUBATO_ASSIGN(auto studies, open_studies(options, files));
  set_log_quiet(options.quiet);
  auto done = run_all(options, studies, stop);
  // What has finished is worth having, whatever ended the rest.
  for (Running& running : studies) {
    const bool any = std::ranges::any_of(running.results.cells, [](const auto& seeds) {
      return std::ranges::any_of(seeds, [](const auto& cell) { return cell.has_value(); });
    });
    if (!any) continue;
    if (!running.written) RUBATO_TRY(write_study(running, options.json));
    if (!options.json) print_study(running);
  }
  return done;
}

}  // namespace

int study(const StudyOptions& options, std::stop_token stop) {
  const auto done = study_checked(options, stop);
  return done ? 0 : report_error(done.error());
}

}  // namespace rubato::cli
