// `rubato replay`: a real run beside the same in virtual time.
#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/print.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/command_files.hpp"
#include "cli/commands.hpp"
#include "cli/measured_run.hpp"
#include "cli/run_data.hpp"
#include "cli/variant_runs.hpp"
#include "cli/whatif/fitted_file.hpp"
#include "cli/whatif/replayed.hpp"
#include "report/comparison.hpp"

namespace rubato::cli {
namespace {

Result<void> write_fitted(const whatif::Base& base, const ReplayRun& options) {
  const std::filesystem::path file(options.fitted);
  RUBATO_ASSIGN(const auto fitted,
                whatif::fitted_file(base.source, base.variant.config, file.stem().string()));
  // The names of traces follow from the fit. Those of an earlier fit are there with its file.
  CommandFiles files = replay_files(options);
  for (const auto& trace : fitted.traces)
    files.outputs.push_back({"--fitted", (file.parent_path() / trace.name).string(),
                             std::filesystem::exists(file) ? Kind::Values : Kind::None});
  RUBATO_TRY(check_files(files));
  for (const auto& trace : fitted.traces)
    RUBATO_TRY(write_file(file.parent_path() / trace.name, trace.text));
  return write_file(file, fitted.text);
}

Result<whatif::Replayed> replay_one(const MeasuredRun& run, const ReplayRun& options, RunData& data,
                                    const std::stop_token& stop) {
  RUBATO_ASSIGN(const whatif::Base base, fit_cluster(run, options.threads, data, stop));
  if (!options.fitted.empty()) RUBATO_TRY(write_fitted(base, options));
  std::vector<Variant> variants{as_long(base, run.record.seconds)};
  const bool reached = run.record.time_to_target_seconds.has_value();
  if (reached) variants.push_back(base.variant);
  RUBATO_ASSIGN(const auto records, run_variants(variants,
                                                 {.seeds = options.seeds,
                                                  .threads = options.threads,
                                                  .quiet = options.quiet,
                                                  .path = true},
                                                 data, stop));
  return whatif::replayed(run.record, records[0], reached ? records[1] : std::vector<RunRecord>());
}

void print_replayed(const whatif::Replayed& all) {
  const std::size_t width = text_columns(stdout);
  print_text("{}, seed {}, {}, beside {} in virtual time\n\n{}\n\n", report::model_title(all.sync),
             all.seed, duration_text(all.seconds), counted(all.runs, "run"),
             whatif::replayed_table(all, width));
  if (all.time) print_text("{}\n", whatif::time_text(all));
  print_text("{}\n", wrapped(whatif::worst_text(all), width));
  if (const std::string text = whatif::decision_text(all); !text.empty())
    print_text("{}\n", wrapped(text, width));
  if (!all.path.empty()) print_text("{}\n", wrapped(whatif::path_line(all), width));
}

Result<void> replay_checked(const ReplayRun& options, const std::stop_token& stop) {
  set_log_quiet(options.quiet);
  RUBATO_ASSIGN(const auto runs, read_measured_runs(options.run));
  if (!options.fitted.empty() && runs.size() > 1)
    return fail(ErrorCode::BadInput,
                fmt::format("--fitted {}: {} holds {}; name the directory of one", options.fitted,
                            options.run, counted(runs.size(), "run")));
  RunData data;
  report::Json json = report::Json::array();
  for (const MeasuredRun& run : runs) {
    RUBATO_ASSIGN(const whatif::Replayed all, replay_one(run, options, data, stop));
    if (options.json)
      json.push_back(whatif::replayed_json(all));
    else
      print_replayed(all);
    if (!options.json && &run != &runs.back()) print_text("\n");
  }
  if (options.json) print_json(json_text(json, 2));
  return {};
}

}  // namespace

int replay(const ReplayRun& options, std::stop_token stop) {
  return exit_code(replay_checked(options, stop));
}

}  // namespace rubato::cli
