#include "cli/outputs.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.hpp"
#include "cli/curves_csv.hpp"
#include "cli/report_html.hpp"
#include "cli/results_json.hpp"
#include "cli/table.hpp"
#include "sync/option_table.hpp"

namespace rubato::cli {

Comparison start_comparison(const cluster::ClusterConfig& config,
                            const std::vector<std::string>& models, std::string command,
                            bool virtual_time) {
  Comparison comparison;
  comparison.cluster = config.name;
  comparison.config_text = config.text;
  comparison.command = std::move(command);
  comparison.host = read_host_info();
  comparison.target_loss = config.stop.target_loss;
  comparison.target_accuracy = config.stop.target_accuracy;
  comparison.task = config.dataset.task;
  comparison.virtual_time = virtual_time;
  for (const std::string& model : models)
    for (const auto& row : sync::option_rows())
      if (row.of == model)
        comparison.options.push_back({model, std::string(row.key), value_text(row, config.sync)});
  return comparison;
}

Result<void> make_output_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error && access(directory.c_str(), W_OK) != 0) error.assign(errno, std::generic_category());
  if (!error) return {};
  return fail(ErrorCode::BadInput, fmt::format("--out {}: cannot write there: {}; choose another "
                                               "directory",
                                               directory, error.message()));
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

Result<void> write_outputs(const Comparison& comparison, const std::string& directory, bool json) {
  const std::filesystem::path path(directory);
  const std::string results = results_json(comparison);
  RUBATO_TRY(write_file(path / "results.json", results));
  RUBATO_TRY(write_file(path / "curves.csv", curves_csv(comparison)));
  const auto summaries = summarize(comparison);
  RUBATO_TRY(write_file(path / "report.html", report_html(comparison, summaries)));
  if (json) {
    fmt::print("{}", results);
  } else {
    fmt::print("{}\nReport: {}\n", comparison_table(comparison, summaries),
               absolute_path(path / "report.html"));
  }
  return {};
}

}  // namespace rubato::cli
