// cluster/named_files.hpp - the files that a run of a cluster file reads.
// Paths are as the configuration has them. Nothing has to be there.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// The catalog of a cluster file: the first devices.toml beside the file, in a deploy/ above it, or
// in shipped_directory(). Empty: there is none.
std::string find_catalog(const std::string& cluster_file);

// The file, its catalog, data, traces, schema, and the files of its model. Data may be directories.
std::vector<std::string> named_files(const ClusterConfig& config);

}  // namespace rubato::cluster
