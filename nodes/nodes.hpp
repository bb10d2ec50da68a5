// nodes/nodes.hpp - a server or a worker of a real cluster, from its cluster file until the run
// ends. Returns of both: Stopped after a request; BadInput before anything starts; Refused by the
// cluster; Timeout or Gone where the scheduler does not answer. Threads: the caller's is one of the
// node's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "nodes/node_options.hpp"
#include "nodes/stop.hpp"
#include "proto/messages.hpp"

namespace rubato::nodes {

struct ServerRun {
  NodeOptions node;
  int shards = 1;  // in this process, a thread and a port each
  Throttle throttle;
};
[[nodiscard]] Result<void> run_server(ServerRun run, const Stop& stop);

struct WorkerRun {
  NodeOptions node;
  bool stretch = false;  // each step takes at least the time the cluster file gives the device
  Throttle throttle;     // steps are stretched, too
  std::string data;      // own data; empty: as the cluster file says
  // Of model.kind = "own": the program with the training loop, in place of the file's. The process
  // becomes it.
  std::string module = {};
  std::vector<std::string> loop = {};
  std::string like;  // with join = "open": a group or worker of the file; empty: the first
  // Called several times a second with what the worker has done. May be empty.
  std::function<void(const proto::Progress&)> on_progress = {};
};
[[nodiscard]] Result<void> run_worker(WorkerRun run, const Stop& stop);

}  // namespace rubato::nodes
