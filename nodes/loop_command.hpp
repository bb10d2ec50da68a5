// nodes/loop_command.hpp - the program of a worker of model.kind = "own": which one it is, and what
// it finds in its environment, by which abi/rubato.h knows its cluster. Errors: BadInput, one line.
// Threads: the caller's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "nodes/node_options.hpp"

namespace rubato::nodes {

// The user names the program on the command line, in place of that of the cluster file: `words`, or
// a Python file. BadInput for a model of ours, which has no program.
[[nodiscard]] Result<void> use_loop(cluster::ClusterConfig& config, const std::string& module,
                                    const std::vector<std::string>& words);

// The words of the program and its arguments. BadInput: nobody has named one.
[[nodiscard]] Result<std::vector<std::string>> loop_words(const cluster::ClusterConfig& config);

struct LoopPlace {
  NodeOptions node;
  std::string like;
  bool stretch = false;
  Throttle throttle;
};
using Environment = std::map<std::string, std::string>;
Environment loop_environment(const LoopPlace& place);

// Where workers of a run with the results in `out` note their steps. Empty: there is nobody who
// would, or the user's own environment says where.
std::string curves_directory(const cluster::ClusterConfig& config, const std::string& out);

// Becomes the program: returns only if it cannot be started. Signals are no longer blocked.
Error become_loop(const std::vector<std::string>& words, const Environment& more);

}  // namespace rubato::nodes
