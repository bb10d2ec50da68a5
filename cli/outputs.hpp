// cli/outputs.hpp - the files and the text that a finished comparison leaves behind.
#pragma once

#include <string>

#include "cli/comparison.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cli {

// A comparison of these models on this cluster and machine, without runs.
Comparison start_comparison(const cluster::ClusterConfig& config,
                            const std::vector<std::string>& models, std::string command,
                            bool virtual_time);

// Makes the directory of --out if it is absent. To be called before the work that fills it.
// BadInput when nothing can be written there.
[[nodiscard]] Result<void> make_output_directory(const std::string& directory);

std::string absolute_path(const std::string& path);

// Prints the table and the report's path, or results.json with `json`.
void print_comparison(const Comparison& comparison, const std::string& directory, bool json);

// Writes the run directory (cli/run_directory.hpp), then prints as above.
[[nodiscard]] Result<void> write_outputs(const Comparison& comparison, const std::string& directory,
                                         bool json);

}  // namespace rubato::cli
