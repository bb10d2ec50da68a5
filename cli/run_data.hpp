// cli/run_data.hpp - what many runs in virtual time train on: data of equal kind are loaded once.
// Errors: as cluster::load_data() and nodes::make_launcher() have them. Threads: one owner; what it
// hands out is read by many.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "emulation/loop_processes.hpp"
#include "train/data/dataset.hpp"

namespace rubato::cli {

// Data that several clusters share.
struct LoadedData {
  train::DatasetOptions options;
  std::uint64_t seed = 0;
  train::DataSplit split;
  std::uint64_t fingerprint = 0;
  // Of an own model: the program that has data and model.
  std::vector<std::string> words = {};
  std::shared_ptr<emulation::LoopLauncher> loops = nullptr;
};

class RunData {
 public:
  // The data of one cluster, shared with those before it; none where only the timing counts.
  // Lifetime of what is returned: this object's.
  [[nodiscard]] Result<const LoadedData*> of(const cluster::ClusterConfig& config);

 private:
  Result<const LoadedData*> program_of(const cluster::ClusterConfig& config);

  std::vector<std::unique_ptr<LoadedData>> loaded_;
};

}  // namespace rubato::cli
