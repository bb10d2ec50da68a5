// cluster/energy.hpp - what each worker of a run drew, by the power of its device.
// joules = busy x time computing + idle x the rest of its life + radio x time communicating.
// Servers, the scheduler, and what a device draws before it joins are left out.
// Pure. Threads: any. Errors: none.
#pragma once

#include "base/run_record.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::cluster {

// record.workers[i].joules <- of those whose device says what it draws.
void add_energy(const ClusterConfig& config, RunRecord& record);

}  // namespace rubato::cluster
