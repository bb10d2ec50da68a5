#include "cluster/named_files.hpp"

#include <filesystem>

#include "base/shipped.hpp"

namespace rubato::cluster {
namespace fs = std::filesystem;

std::string find_catalog(const std::string& cluster_file) {
  constexpr const char* kCatalogFile = "devices.toml";
  std::error_code ignored;
  const fs::path directory = fs::absolute(cluster_file, ignored).parent_path();
  std::vector<fs::path> candidates = {directory / kCatalogFile};
  for (fs::path p = directory; !p.empty(); p = p.parent_path()) {
    candidates.push_back(p / "deploy" / kCatalogFile);
    if (p == p.parent_path()) break;
  }
  candidates.push_back(shipped_directory() / kCatalogFile);
  for (const fs::path& candidate : candidates)
    if (fs::is_regular_file(candidate, ignored)) return candidate.string();
  return {};
}

std::vector<std::string> named_files(const ClusterConfig& config) {
  std::vector<std::string> files{
      config.file,        find_catalog(config.file),    config.dataset.path, config.dataset.schema,
      config.model.start, config.dataset.held_out_path, config.model.module, config.model.layers};
  for (const std::string& word : config.model.command) files.push_back(word);
  for (const WorkerProfile& worker : all_profiles(config)) files.push_back(worker.data);
  for (std::string& trace : trace_paths(config, fs::path(config.file).parent_path().string()))
    files.push_back(std::move(trace));
  std::erase(files, "");
  return files;
}

}  // namespace rubato::cluster
