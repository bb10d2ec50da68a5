// cli/whatif/fitted_file.hpp - a fitted cluster as a cluster file, for other commands.
// Pure. Errors: BadInput, as of the cluster file. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cli::whatif {

struct FittedFile {
  struct Trace {
    std::string name;  // of a file beside the cluster file
    std::string text;
  };
  std::string text;
  std::vector<Trace> traces;
};

// `source`, with a section for each worker of `config`, which was fitted to it, and its churn.
// Traces of speed are files beside it, called STEM-WORKER.csv. Paths are absolute.
[[nodiscard]] Result<FittedFile> fitted_file(const cluster::ClusterSource& source,
                                             const cluster::ClusterConfig& config,
                                             const std::string& stem);

}  // namespace rubato::cli::whatif
