// cluster/cluster_scaling.hpp - makes a described cluster larger or smaller, more or less unequal,
// as `worker_count` and `heterogeneity` of the cluster file ask.
// Pure. Units: speeds in steps per second. Errors: as stated below.
#pragma once

#include <vector>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// Shares `total` workers among the groups in proportion to their counts (largest remainders first,
// then in order), at least one each. Fewer workers than groups: the groups with the highest counts
// have one each (of equals the first), and the others are no longer there. Requires: total >= 1, a
// group.
void scale_worker_count(std::vector<WorkerGroup>& groups, int total);

// Gives the slowest group (of equals the last) the speed at which H = mean(v)/min(v) is
// `heterogeneity`. Every group that would then be slower gets that speed, too. A higher H slows one
// group down, a lower one brings the slowest up, 1 makes all equal.
// Returns: false if there is only one group, which always has H = 1, and `heterogeneity` is not 1.
// Requires: step times and heterogeneity >= 1.
[[nodiscard]] bool set_heterogeneity(std::vector<WorkerGroup>& groups, double heterogeneity);

}  // namespace rubato::cluster
