#include "cli/measured_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.hpp"
#include "base/hex.hpp"
#include "cli/run_place.hpp"
#include "cli/whatif/fit.hpp"
#include "nodes/samples_file.hpp"
#include "report/run_directory.hpp"

namespace rubato::cli {
namespace {

namespace fs = std::filesystem;

// Links are fitted so often at most, each time to so many seeds.
constexpr int kLinkFits = 4;
constexpr int kLinkFitSeeds = 5;

// Where the samples of a run lie: of `up` and `scheduler` in its directory, of `compare --real` in
// one below it.
fs::path samples_path(const std::string& directory, const RunRecord& run) {
  const fs::path below =
      fs::path(directory) / fmt::format("{}-{}", run.sync, run.seed) / nodes::kSamplesFile;
  std::error_code none;
  return fs::exists(below, none) ? below : fs::path(directory) / nodes::kSamplesFile;
}

Result<MeasuredRun> read_one(const std::string& directory, const report::Comparison& comparison,
                             const RunRecord& record) {
  MeasuredRun run;
  run.record = record;
  const std::string path = samples_path(directory, record).string();
  const auto text = read_file(path);
  if (!text)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: has no {}, which runs before version 0.2.0 did not write",
                            directory, nodes::kSamplesFile));
  RUBATO_ASSIGN(auto file, scheduler::parse_samples(*text, path));
  run.samples = std::move(file.samples);
  if (run.samples.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: holds no samples; nobody trained", path));
  RUBATO_ASSIGN(run.source, cluster::read_cluster(directory + "/cluster.toml"));
  const auto behind = [&](std::string_view begin) {
    const auto found = std::ranges::find_if(
        file.notes, [&](const std::string& note) { return note.starts_with(begin); });
    return found == file.notes.end() ? std::string() : found->substr(begin.size());
  };
  if (const std::string shown = behind(nodes::kClusterFileNote); !shown.empty())
    run.source.file = shown;
  if (const std::string bytes = bytes_of_hex(behind(nodes::kClusterFileBytes)); !bytes.empty())
    run.source.file = bytes;
  run.settings.push_back({"seed", fmt::to_string(record.seed)});
  if (comparison.target_loss)
    run.settings.push_back({"stop.target_loss", fmt::format("{}", *comparison.target_loss)});
  return run;
}

}  // namespace

Result<std::vector<MeasuredRun>> read_measured_runs(const std::string& run) {
  RUBATO_ASSIGN(const std::string directory, find_run(run));
  RUBATO_ASSIGN(const report::Comparison comparison, report::read_run_directory(directory));
  if (comparison.virtual_time)
    return fail(ErrorCode::BadInput,
                fmt::format("{}: was run in virtual time, so nothing was measured; name a run of "
                            "rubato up, compare --real or scheduler",
                            directory));
  std::vector<MeasuredRun> runs;
  for (const RunRecord& record : comparison.runs) {
    RUBATO_ASSIGN(MeasuredRun one, read_one(directory, comparison, record));
    runs.push_back(std::move(one));
  }
  if (runs.empty())
    return fail(ErrorCode::BadInput, fmt::format("{}: no run has ended there", directory));
  return runs;
}

Variant as_long(const whatif::Base& base, double seconds) {
  Variant variant = base.variant;
  cluster::StopConfig& stop = variant.config.stop;
  stop.target_loss.reset();
  stop.target_accuracy.reset();
  stop.class_targets = {};
  stop.max_steps.reset();
  stop.max_seconds = seconds;
  return variant;
}

Result<whatif::Base> fit_cluster(const MeasuredRun& run, int threads, RunData& data,
                                 const std::stop_token& stop) {
  auto measured = whatif::fit_workers(run.samples);
  RUBATO_ASSIGN(const auto file, cluster::parse_cluster(run.source.text, run.source.file,
                                                        run.source.catalog_text, run.settings));
  whatif::add_file_steps(measured, file);
  whatif::LinkFit links;
  whatif::Base base;
  base.source = run.source;
  base.settings = run.settings;
  base.sync = run.record.sync;
  for (int i = 0;; ++i) {
    base.fitted = [measured, links, record = run.record](cluster::ClusterConfig& config) {
      return whatif::apply_fit(config, measured, links, record);
    };
    RUBATO_TRY(whatif::read_base(base, "as measured"));
    if (i == kLinkFits) return base;
    whatif::Replays replays(kLinkFitSeeds);
    RUBATO_TRY(run_variants(
        {as_long(base, run.record.seconds)},
        {.seeds = kLinkFitSeeds,
         .threads = threads,
         .quiet = true,
         .on_samples = [&](std::size_t, std::size_t seed,
                           const auto& samples) { replays[seed] = whatif::fit_workers(samples); }},
        data, stop));
    if (whatif::links_fit(measured, replays)) return base;
    links = whatif::fit_links(links, measured, replays);
  }
}

}  // namespace rubato::cli
