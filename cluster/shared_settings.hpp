// cluster/shared_settings.hpp - what all nodes of a cluster must have in common, as text that a
// scheduler compares with its own (proto::Hello::settings). What may differ is left out: paths,
// devices, links, codecs, cores, how the run is evaluated and when it stops.
// Pure. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// Lines "training.batch = 32", as the cluster file has them; of sync models the chosen one's.
std::string shared_settings(const ClusterConfig& config, const std::string& sync,
                            std::uint64_t seed);

}  // namespace rubato::cluster
