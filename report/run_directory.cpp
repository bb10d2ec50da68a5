#include "report/run_directory.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/file.hpp"
#include "report/curves_csv.hpp"
#include "report/report_html.hpp"
#include "report/results_json.hpp"
#include "report/run_log.hpp"

namespace rubato::report {
namespace {

std::string log_path(const std::string& directory) {
  return (std::filesystem::path(directory) / "run.jsonl").string();
}

// Why there is no log to read.
std::string no_log(const std::string& directory, const Error& unread) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (!fs::is_directory(directory, failed))
    return fmt::format("{}: {}; name a run: rubato runs lists them", directory,
                       failed ? failed.message() : "is no directory");
  if (fs::exists(log_path(directory), failed) || failed) return unread.message;
  if (fs::exists(fs::path(directory) / "run.json", failed))
    return fmt::format("{}: this run has no result yet: it goes on, or ended before it had one",
                       directory);
  return fmt::format(
      "{}: holds no run.jsonl; name a run of rubato compare, up or scheduler: rubato "
      "runs lists them",
      directory);
}

}  // namespace

Result<void> begin_log(const Comparison& comparison, const std::string& directory) {
  return write_file(log_path(directory), log_begin(comparison));
}

Result<void> add_to_log(const RunRecord& run, const std::string& directory) {
  const std::string path = log_path(directory);
  errno = 0;
  std::ofstream file(path, std::ios::app | std::ios::binary);
  file << log_run(run) << std::flush;
  if (file) return {};
  return fail(ErrorCode::Io, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

Result<void> write_run_directory(const Comparison& comparison, const std::string& directory) {
  const std::filesystem::path path(directory);
  RUBATO_TRY(write_file(path / "cluster.toml", comparison.config_text));
  RUBATO_TRY(write_file(path / "resolved.txt", comparison.resolved_text));
  RUBATO_TRY(write_file(path / "run.jsonl", run_log(comparison)));
  RUBATO_TRY(write_file(path / "results.json", results_json(comparison)));
  RUBATO_TRY(write_file(path / "curves.csv", curves_csv(comparison)));
  return write_file(path / "report.html", report_html(comparison, summarize(comparison)));
}

Result<Comparison> read_run_directory(const std::string& directory) {
  const std::string path = log_path(directory);
  const auto text = read_file(path);
  if (!text) return fail(ErrorCode::BadInput, no_log(directory, text.error()));
  RUBATO_ASSIGN(Comparison comparison, parse_run_log(*text, path));
  if (comparison.runs.empty())
    return fail(ErrorCode::BadInput,
                fmt::format("{}: no run has finished; run its command again", directory));
  return comparison;
}

}  // namespace rubato::report
