// cluster/perturbed.hpp - a cluster like this one, whose links and speeds are not what its file
// says: what a plan is worth that rests on wrong figures.
// Pure: the same seed gives the same cluster. Errors: none. Threads: any.
#pragma once

#include <cstdint>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// Each figure is `part` more or less than configured, whatever a coin says: of each group of
// workers the step time, the latency and the bandwidth, and of the servers their link. Both
// directions of a link change alike. Requires: 0 <= part < 1.
ClusterConfig perturbed(ClusterConfig config, double part, std::uint64_t seed);

}  // namespace rubato::cluster
