// cluster/shared_settings.hpp - the settings that all nodes of a run must have in common, as text.
// A scheduler compares a node's text with its own (proto::Hello::settings). The rows of
// cluster/cluster_keys.hpp say which settings are shared. Paths, devices, links and codecs are not,
// and neither is how the run is evaluated and when it stops.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// Lines like "training.batch = 32". Of the sync models' options it has those of `sync`.
std::string shared_settings(const ClusterConfig& config, const std::string& sync,
                            std::uint64_t seed);

}  // namespace rubato::cluster
