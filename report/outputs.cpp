#include "report/outputs.hpp"
#include "base/print.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/terminal.hpp"
#include "cluster/cluster_keys.hpp"
#include "report/results_json.hpp"
#include "report/run_directory.hpp"
#include "report/table.hpp"
#include "sync/option_table.hpp"

namespace rubato::report {

namespace {

// Every key with the value that holds, then every worker.
std::string resolved_text(const cluster::ClusterConfig& config) {
  std::string text;
  for (const cluster::KeySection& section : cluster::key_sections())
    for (const cluster::Key& key : section.keys)
      if (key.value) text += fmt::format("{} = {}\n", key.name, key.value(config));
  for (const cluster::WorkerProfile& worker : cluster::all_profiles(config))
    text += fmt::format(
        "worker {}: step_seconds {}, jitter {}, latency_seconds {}, bytes a second up {}, down "
        "{}\n",
        worker.name, worker.device.step_seconds, worker.device.jitter, worker.link.latency_seconds,
        worker.link.up_bytes_per_second, worker.link.down_bytes_per_second);
  return text;
}

// "20 ms, 5 Mb/s up, 10 Mb/s down"; empty for a link that takes no time.
std::string link_text(const cluster::LinkModel& link) {
  std::string text;
  const auto add = [&text](bool there, const std::string& words) {
    if (there) text += (text.empty() ? "" : ", ") + words;
  };
  add(link.latency_seconds > 0, fmt::format("{:g} ms", 1e3 * link.latency_seconds));
  add(link.up_bytes_per_second > 0, fmt::format("{:g} Mb/s up", 8e-6 * link.up_bytes_per_second));
  add(link.down_bytes_per_second > 0,
      fmt::format("{:g} Mb/s down", 8e-6 * link.down_bytes_per_second));
  return text;
}

}  // namespace

Comparison start_comparison(const cluster::ClusterConfig& config,
                            const std::vector<std::string>& models, std::string command,
                            bool virtual_time) {
  Comparison comparison;
  comparison.cluster = config.name;
  comparison.config_text = config.text;
  comparison.resolved_text = resolved_text(config);
  comparison.command = std::move(command);
  comparison.host = read_host_info();
  comparison.target_loss = config.stop.target_loss;
  comparison.target_accuracy = config.stop.target_accuracy;
  comparison.class_targets = config.stop.class_targets;
  comparison.task = config.dataset.task;
  comparison.virtual_time = virtual_time;
  for (const std::string& model : models)
    for (const auto& row : sync::option_rows())
      if (row.of == model)
        comparison.options.push_back({model, std::string(row.key), value_text(row, config.sync)});
  return comparison;
}

std::map<std::string, std::string> link_texts(const cluster::ClusterConfig& config) {
  std::map<std::string, std::string> links;
  for (const auto& worker : cluster::all_profiles(config))
    links[worker.name] = link_text(worker.link);
  return links;
}

Result<std::unique_ptr<LivePage>> open_live_page(const std::string& address, Comparison comparison,
                                                 const std::string& sync, std::uint64_t seed,
                                                 std::map<std::string, std::string> links) {
  if (address.empty()) return nullptr;
  LivePageOptions options{address, std::move(comparison), {}, std::move(links)};
  options.first.sync = sync;
  options.first.seed = seed;
  RUBATO_ASSIGN(auto page, LivePage::open(std::move(options)));
  log_info("live page: " + page->url());
  return page;
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

void note_busy(Comparison& comparison) {
  const std::string busy = busy_note(comparison);
  if (busy.empty()) return;
  comparison.note += (comparison.note.empty() ? "" : "; ") + busy;
}

void print_place(const std::string& words, const std::string& path) {
  std::error_code none;
  if (std::filesystem::exists(path, none)) print_text("{}{}\n", words, absolute_path(path));
}

void print_comparison(const Comparison& comparison, const std::string& page, bool json) {
  if (json) {
    print_json(results_json(comparison));
  } else {
    print_text("{}\n", comparison_table(comparison, summarize(comparison), text_columns(stdout)));
    print_place("Report: ", page);
  }
}

Result<void> write_outputs(const Comparison& comparison, const std::string& directory, bool json) {
  auto written = write_run_directory(comparison, directory);
  // The figures are worth having where there is no room for the files.
  print_comparison(comparison, written ? directory + "/report.html" : "", json);
  return written;
}

}  // namespace rubato::report
