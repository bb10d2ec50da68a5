// cluster/cluster_scaling.hpp - a described cluster made larger or smaller, more or less unequal:
// what `worker_count` and `heterogeneity` of the cluster file do to its groups of workers.
// Pure. Units: speeds in steps per second. Errors: none but those said below.
#pragma once

#include <vector>

#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// Shares `total` workers among the groups in proportion to their counts (largest remainders first,
// then in order), at least one each. Requires: as many workers as groups.
void scale_worker_count(std::vector<WorkerGroup>& groups, int total);

// Gives the slowest group, of equals the last, the speed at which H = mean(v)/min(v) is
// `heterogeneity`, and that speed to every group that would then be slower: a higher H slows one
// group down, a lower one brings the slowest up, 1 makes all equal.
// Returns: false when there is one group only, whose H is always 1, and another H was asked for.
// Requires: step times and heterogeneity >= 1.
[[nodiscard]] bool set_heterogeneity(std::vector<WorkerGroup>& groups, double heterogeneity);

}  // namespace rubato::cluster
