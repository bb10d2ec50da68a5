// nodes/loop_launcher.hpp - what starts the processes of a virtual cluster whose model is the
// user's: of the program that the cluster file or the command line names. Errors: BadInput, one
// line. Threads: the caller's.
#pragma once

#include <memory>

#include "cluster/cluster_config.hpp"
#include "emulation/loop_processes.hpp"

namespace rubato::nodes {

// A Python file is read now and forked for each worker; another program is started anew for each.
[[nodiscard]] Result<std::shared_ptr<emulation::LoopLauncher>> make_launcher(
    const cluster::ClusterConfig& config);

}  // namespace rubato::nodes
