// cli/serial_runs.hpp - serial training in virtual time: how many updates the target needs. Bounds
// of a cluster follow from them (cli/whatif/bounds.hpp). Errors: BadInput where there is no target,
// nothing to train on in one place, or serial training misses the target; else as run_variants()
// has them. Threads: one caller, who waits.
#pragma once

#include <stop_token>
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

// An entry for each of `batches`, the mini-batches of an update: the median of the seeds, at the
// rate of several that needs fewest. Requires: require_bounds() holds.
[[nodiscard]] Result<std::vector<Serial>> run_serial(const cluster::ClusterConfig& config,
                                                     const std::vector<int>& batches,
                                                     const VariantOptions& options, RunData& data,
                                                     const std::stop_token& stop);

// Seconds of the linear bound (cli/whatif/bounds.hpp). Requires: as run_serial(); the workers'
// steps take time.
[[nodiscard]] Result<double> run_linear_bound(const cluster::ClusterConfig& config,
                                              const VariantOptions& options, RunData& data,
                                              const std::stop_token& stop);

}  // namespace rubato::cli
