// `rubato report`: the files of a run directory again, from its log.
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/outputs.hpp"
#include "cli/run_directory.hpp"
#include "cli/run_place.hpp"

namespace rubato::cli {
namespace {

Result<void> report_checked(const std::string& run, bool json) {
  RUBATO_ASSIGN(const std::string directory, find_run(run));
  if (std::filesystem::exists(directory + "/study.json")) return report_study(directory, json);
  RUBATO_ASSIGN(const Comparison comparison, read_run_directory(directory));
  return write_outputs(comparison, directory, json);
}

}  // namespace

int report(const ReportRun& run) {
  const auto done = report_checked(run.run, run.json);
  return done ? 0 : report_error(done.error());
}

}  // namespace rubato::cli
