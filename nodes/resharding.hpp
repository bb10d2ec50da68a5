// nodes/resharding.hpp - the --state directories of a run's servers become those of another number
// of servers (server/resharding.hpp). The old files stay until all new ones are on disk. A
// process that dies meanwhile loses nothing, and the next one begins again.
// Memory: all shards of the run, and one more. Threads: one owner. Errors: BadInput for directories
// that do not hold the run, one line with the remedy; Io.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_plan.hpp"
#include "scheduler/scheduler.hpp"

namespace rubato::nodes {

// Writes the snapshots of the servers that `config` has to `to`, a new directory, as those of
// server-0, server-1 and so on. `core`: the run's scheduler, as it was last. `from`: directories,
// in one of which each of its servers has its files.
// Returns: what that scheduler is to be told.
[[nodiscard]] Result<scheduler::Resharding> reshard_servers(const cluster::ClusterConfig& config,
                                                            const cluster::ClusterPlan& plan,
                                                            const scheduler::Scheduler& core,
                                                            const std::vector<std::string>& from,
                                                            const std::string& to);

// The servers that the cluster file names.
scheduler::Resharding servers_of(const cluster::ClusterConfig& config);

// Where the new state of `directory` is made.
std::string next_state(const std::string& directory);
// next_state() takes the place of `directory`, if there is one.
[[nodiscard]] Result<void> take_next_state(const std::string& directory);
// A process died while next_state() was to take the place of `directory`.
bool unsettled(const std::string& directory);
// Ends what such a process was about. Then `directory` has the whole state, old or new.
[[nodiscard]] Result<void> settle_state(const std::string& directory);

}  // namespace rubato::nodes
