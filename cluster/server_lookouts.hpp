// cluster/server_lookouts.hpp - why a worker does not reach the servers that it does not hear: a
// lookout for each. It misses them before it joins (worker/server_check.hpp), while they owe an
// answer, and while the scheduler is silent.
// Threads: one owner; a lookout has its own (cluster/lookout.hpp).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "cluster/lookout.hpp"
#include "worker/worker_core.hpp"

namespace rubato::cluster {

class ServerLookouts {
 public:
  // To be called several times a second. Returns: lines that are news; they are in the log.
  std::vector<std::string> poll(Instant now, const worker::WorkerCore& core);

 private:
  std::map<std::string, Lookout> silent_;  // by endpoint
};

}  // namespace rubato::cluster
