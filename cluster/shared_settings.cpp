#include "cluster/shared_settings.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "base/checksum.hpp"
#include "cluster/cluster_keys.hpp"

namespace rubato::cluster {
namespace {

// The workers' names decide which of them trains on which samples.
std::string workers_text(const ClusterConfig& config) {
  std::string names;
  for (const WorkerProfile& worker : worker_profiles(config)) names += worker.name + "\n";
  return fmt::format("{} (names {:016x})", config.worker_count(),
                     checksum(std::as_bytes(std::span(names))));
}

}  // namespace

std::string shared_settings(const ClusterConfig& config, const std::string& sync,
                            std::uint64_t seed) {
  ClusterConfig run = config;
  run.seed = seed;
  std::string text = fmt::format("sync = {}\n", sync);
  const auto add = [&text](std::string_view key, const std::string& value) {
    text += fmt::format("{} = {}\n", key, value);
  };
  for (const KeySection& section : key_sections()) {
    if (section.name == kWorkersSection) add(section.name, workers_text(run));
    for (const Key& key : section.keys)
      if (key.shared && key.value && (key.model.empty() || key.model == sync))
        add(key.name, key.value(run));
  }
  return text;
}

}  // namespace rubato::cluster
