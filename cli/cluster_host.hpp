// cli/cluster_host.hpp - the scheduler and the evaluator of a real cluster, in this process: what
// `rubato scheduler` and `rubato up` share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.hpp"
#include "base/run_record.hpp"
#include "base/trace.hpp"
#include "cli/endpoint.hpp"
#include "cli/live/live_page.hpp"
#include "cli/progress.hpp"
#include "cluster/cluster_config.hpp"
#include "proto/identity.hpp"
#include "server/durable_scheduler.hpp"

namespace rubato::cli {

// Of `run_count` runs of this cluster.
ProgressOptions progress_options(const cluster::ClusterConfig& config, std::size_t run_count,
                                 bool real_time);

struct ClusterHostOptions {
  Endpoint bind;
  std::string sync;
  std::uint64_t seed = 1;
  std::string out;  // directory for the trained model, made already
  bool quiet = false;
  // Shows this run as one of several, by this name; null: it has a progress of its own, unless
  // `quiet`. Lifetime: the run's.
  Progress* progress = nullptr;
  std::string label = {};  // no progress
  // Directory that outlives this process: another one can go on with the run. Empty: none.
  std::string state = {};
  bool anew = false;   // a new run, whatever is in `state`
  bool alone = false;  // no node of an earlier process is left: a run that had ended is over
  std::shared_ptr<const proto::Keys> keys = nullptr;  // null: not encrypted
  Trace* trace = nullptr;  // where scheduler and evaluator are recorded; null: nowhere
  // Called once with the endpoint that nodes join at. May be empty.
  std::function<void(const std::string&)> on_listening;
  // Called some times a second while workers are awaited that have data of their own. Returns: why
  // to wait no longer, if so. May be empty.
  std::function<std::optional<std::string>()> on_waiting;
  LivePage* page = nullptr;  // shows the run; null: nobody does
  // Called after every message, and some times a second; may stop the run. May be empty.
  std::function<void(server::DurableScheduler&)> on_turn;
};

struct HostedRun {
  RunRecord record;
  std::string model;       // the file of the trained model; empty: it was not saved
  bool had_ended = false;  // in an earlier process: nothing was trained in this one
};
// Loads the data, or where each worker has its own lets all agree on a schema (with held-out data
// only if the file names some). Then runs until the stop criterion holds, every worker has left, a
// server is lost, or `stop` (which ends the run for everyone). Returns: the record; Io when the
// address cannot be bound.
[[nodiscard]] Result<HostedRun> host_cluster(const cluster::ClusterConfig& config,
                                             const ClusterHostOptions& options,
                                             std::stop_token stop);

struct Conclusion {
  std::string command;  // as typed, for the report
  std::string out;      // directory for the results, made already
  bool json = false;
  bool missed_ok = false;    // as of CompareOptions
  std::string note = {};     // as Comparison::note
  LivePage* page = nullptr;  // told where the report is; null: there is none
};

// Writes and prints what a hosted run leaves behind, unless training never began. The results of a
// run that had ended stay as they are, if that process wrote all of them. Returns: Stopped
// after an interrupt; Io, saying why, when the run ended before its stop criterion held; Missed
// when it held without the target, unless that is `missed_ok`.
[[nodiscard]] Result<void> conclude(const cluster::ClusterConfig& config, HostedRun run,
                                    const Conclusion& options, const std::stop_token& stop);

}  // namespace rubato::cli
