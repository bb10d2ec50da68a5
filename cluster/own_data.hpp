// cluster/own_data.hpp - the data of a run on this machine: one file that the workers share out, or
// a file for each worker (dataset.partition = "local"), read here as the boxes would read them.
// Errors: BadInput, one line that names the file, or the worker that has none.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "train/data/dataset.hpp"

namespace rubato::cluster {

// With own data: every worker has some named.
[[nodiscard]] Result<void> check_own_data(const ClusterConfig& config);

// All of it: for runs in virtual time, and for the scheduler of a run without own data.
[[nodiscard]] Result<train::DataSplit> load_data(const ClusterConfig& config);

// One worker's own data under the schema that all agreed on. Its held-out samples are empty where
// the scheduler has a file to hold out.
[[nodiscard]] Result<train::DataSplit> load_box(const ClusterConfig& config,
                                                const std::string& path,
                                                const train::InputSchema& schema);

// data.held_out <- the file that the scheduler holds out, under data.schema. Without one it stays
// as it is: workers hold out a part each.
[[nodiscard]] Result<void> load_held_out(const ClusterConfig& config, train::DataSplit& data);

}  // namespace rubato::cluster
