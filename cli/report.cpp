// `rubato report`: the files of a run directory again, from its log.
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/run_place.hpp"
#include "report/outputs.hpp"
#include "report/run_directory.hpp"

namespace rubato::cli {
namespace {

Result<void> report_checked(const std::string& run, bool json) {
  RUBATO_ASSIGN(const std::string directory, find_run(run));
  if (std::filesystem::exists(directory + "/study.json")) return report_study(directory, json);
  RUBATO_ASSIGN(const report::Comparison comparison, report::read_run_directory(directory));
  return report::write_outputs(comparison, directory, json);
}

}  // namespace

int report(const ReportRun& run) {
  return exit_code(report_checked(run.run, run.json));
}

}  // namespace rubato::cli
