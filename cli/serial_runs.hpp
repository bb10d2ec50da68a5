// cli/serial_runs.hpp - serial training in virtual time: how many updates the target needs. Bounds
// of a cluster follow from them (cli/whatif/bounds.hpp). Errors: BadInput where there is no target,
// nothing to train on in one place, or serial training misses the target; else as run_variants()
// has them. Threads: one caller, who waits.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/run_data.hpp"
#include "cli/variant_runs.hpp"
#include "cli/whatif/bounds.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cli {

struct Serial {
  whatif::SerialRun run;
  double rate = 1;  // of the fewest updates, in the file's
};

// Whether serial training can reach anything with this cluster's model and data.
[[nodiscard]] Result<void> require_bounds(const cluster::ClusterConfig& config);

// The bounds of a cluster, from serial training with updates of 1, 4 and 16 mini-batches.
struct SerialBounds {
  std::vector<Serial> serial;  // an entry a size
  whatif::UpdatesNeeded updates;
  double linear = 0;        // seconds
  whatif::BestGather best;  // T_opt
};
// Each size needs the median of the seeds, at the rate of several that needs fewest. Requires:
// require_bounds() holds; the workers' steps take time. `sync`: any model of the cluster's.
[[nodiscard]] Result<SerialBounds> run_serial_bounds(const cluster::ClusterConfig& config,
                                                     const std::string& sync,
                                                     const VariantOptions& options, RunData& data,
                                                     const std::stop_token& stop);

// Seconds of the linear bound alone, which takes updates of one mini-batch. Requires: the same.
[[nodiscard]] Result<double> run_linear_bound(const cluster::ClusterConfig& config,
                                              const VariantOptions& options, RunData& data,
                                              const std::stop_token& stop);

}  // namespace rubato::cli
