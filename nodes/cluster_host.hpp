// nodes/cluster_host.hpp - the scheduler and the evaluator of a real cluster, in this process.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/run_record.hpp"
#include "base/trace.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/data_facts.hpp"
#include "nodes/stop.hpp"
#include "proto/endpoint.hpp"
#include "proto/identity.hpp"
#include "scheduler/durable_scheduler.hpp"

namespace rubato::nodes {

// What the caller sees of a run. All of one thread; each may be empty.
struct Watch {
  // Once, when the data are known and before anything is trained.
  std::function<void(const cluster::DataFacts&)> on_data = {};
  // After every message, and some times a second; may stop the run.
  std::function<void(scheduler::DurableScheduler&)> on_turn = {};
};

struct ClusterHostOptions {
  proto::Endpoint bind;
  std::string sync;  // empty: as the file says
  std::uint64_t seed = 1;
  std::string out;  // directory for the trained model, made already
  // Directory that outlives this process: another one can go on with the run. Empty: none.
  std::string state = {};
  bool anew = false;  // a new run, whatever is in `state`
  // No node of an earlier process is left: a run that had ended is over, and the servers' files in
  // `state` may become those of another number of servers.
  bool alone = false;
  std::shared_ptr<const proto::Keys> keys = nullptr;  // null: not encrypted
  Trace* trace = nullptr;  // where scheduler and evaluator are recorded; null: nowhere
  // Called once with the endpoint that nodes join at. May be empty.
  std::function<void(const std::string&)> on_listening = {};
  // Called some times a second while workers are awaited that have data of their own. Returns: why
  // to wait no longer, if so. May be empty.
  std::function<std::optional<std::string>()> on_waiting = {};
  Watch watch = {};
};

struct HostedRun {
  RunRecord record;        // without findings
  std::string model;       // the file of the trained model; empty: it was not saved
  bool had_ended = false;  // in an earlier process: nothing was trained in this one
  cluster::DataFacts data = {};
};
// Loads the data, or where each worker has its own lets all agree on a schema (with held-out data
// only if the file names some). Then runs until the stop criterion holds, every worker has left, a
// server is lost, or `stop` (which ends the run for everyone). Returns: the record; Io when the
// address cannot be bound.
[[nodiscard]] Result<HostedRun> host_cluster(const cluster::ClusterConfig& config,
                                             const ClusterHostOptions& options, const Stop& stop);

// The earlier run of `options.state` for the number of servers that `config` has: makes the
// directory `to`, with the scheduler's journal and the servers' snapshots. `from`: as in
// nodes/resharding.hpp. BadInput where that is the number that it has.
[[nodiscard]] Result<void> reshard_cluster(const cluster::ClusterConfig& config,
                                           const ClusterHostOptions& options,
                                           const std::vector<std::string>& from,
                                           const std::string& to, const Stop& stop);

}  // namespace rubato::nodes
