// nodes/real_cluster.hpp - a whole cluster as real processes on this machine: what `rubato up` and
// `rubato compare --real` share. This process is scheduler and evaluator; servers and workers are
// its children. Errors: BadInput before anything starts. Threads: the caller's.
#pragma once

#include <string>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "nodes/cluster_host.hpp"
#include "nodes/node_options.hpp"
#include "nodes/profile.hpp"

namespace rubato::nodes {

// Whether the cluster can run as processes here. `command`: for the message.
[[nodiscard]] Result<void> check_real(const cluster::ClusterConfig& config,
                                      const std::string& command);

// Measures each link of the file and says what this machine delivers. BadInput when it misses.
// Links that the kernel shapes are measured by run_real(), once they are there.
[[nodiscard]] Result<void> check_links(const cluster::ClusterConfig& config,
                                       const Throttle& throttle);

// What the figures leave out; empty: nothing.
std::string unshaped_note(const cluster::ClusterConfig& config, const Throttle& throttle);

struct RealRun {
  std::string sync;
  std::string out;         // directory of the run, made already
  bool resumes = false;    // goes on with the run of that directory
  Throttle throttle = {};  // nodes have the links of the file
  // Lifetime: the run's.
  ClusterProfile& profile;
  Watch watch = {};
  std::string curves = {};  // as VirtualOptions has it
  // The program of servers and workers: takes `server` and `worker` with their options, as `rubato`
  // does.
  std::string program = "/proc/self/exe";
};

// Runs one sync model with the seed of `config`. As host_cluster().
[[nodiscard]] Result<HostedRun> run_real(const cluster::ClusterConfig& config, const RealRun& run,
                                         const Stop& stop);

}  // namespace rubato::nodes
