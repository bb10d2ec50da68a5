#include "cli/run_data.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/checksum.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "cluster/own_data.hpp"
#include "nodes/loop_command.hpp"
#include "nodes/loop_launcher.hpp"
#include "report/study/fingerprint.hpp"

namespace rubato::cli {

// The program that brings the data. Results are of its text.
Result<const LoadedData*> RunData::program_of(const cluster::ClusterConfig& config) {
  RUBATO_ASSIGN(const auto words, nodes::loop_words(config));
  const auto known = std::ranges::find(loaded_, words, &LoadedData::words);
  if (known != loaded_.end()) return known->get();
  std::string text = fmt::format("{}", fmt::join(words, " "));
  if (!config.model.module.empty()) {
    RUBATO_ASSIGN(text, read_file(config.model.module));
  }
  auto made = std::make_unique<LoadedData>();
  made->fingerprint = checksum(std::as_bytes(std::span(text)));
  made->words = words;
  RUBATO_ASSIGN(made->loops, nodes::make_launcher(config));
  loaded_.push_back(std::move(made));
  return loaded_.back().get();
}

Result<const LoadedData*> RunData::of(const cluster::ClusterConfig& config) {
  static const LoadedData kNone;
  if (config.timing_only()) return &kNone;
  if (config.own_model()) return program_of(config);
  const auto known = std::ranges::find_if(loaded_, [&](const auto& data) {
    return !config.own_data() && data->options == config.dataset && data->seed == config.seed;
  });
  if (known != loaded_.end()) return known->get();
  RUBATO_ASSIGN(auto split, cluster::load_data(config));
  for (const std::string& line : split.left_out) log_warning(line);
  for (const std::string& hint : split.hints)  // of data that differ little: once
    if (std::ranges::none_of(loaded_, [&](const auto& data) {
          return std::ranges::find(data->split.hints, hint) != data->split.hints.end();
        }))
      log_warning(hint);
  const std::uint64_t print = report::fingerprint(split);
  loaded_.push_back(std::make_unique<LoadedData>(
      LoadedData{config.dataset, config.seed, std::move(split), print}));
  return loaded_.back().get();
}

}  // namespace rubato::cli
