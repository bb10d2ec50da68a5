// cluster/churn.hpp - who comes and goes while a run trains, and when links are cut: the [[churn]]
// sections of a cluster file, and its traces of availability. The virtual cluster and `rubato up`
// play the same list.
// A worker whose first event is a join is absent when training starts. A worker that no group has
// is an additional one: it needs join = "open".
// Pure. Threads: any. Errors: noted in the document: an event that cannot happen, such as a join of
// a worker that is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato {
class ConfigTable;
}

namespace rubato::cluster {

struct ClusterConfig;

struct ChurnEvent {
  // Crash: silence from one moment to the next. Freeze: silence for some seconds; then the node
  // goes on with the state that it has. Outage: for some seconds nothing passes the node's link.
  // Partition: nothing passes between two nodes, of which the event names each by its role.
  enum class Act { Join, Leave, Crash, Freeze, Outage, Partition };
  double at_seconds = 0;  // since training started
  Act act = Act::Join;
  std::string worker = {};  // in the file also a group: then each of its workers has the event
  std::string like = {};    // of an additional worker: the group or worker that it resembles
  std::optional<int> server = {};
  bool scheduler = false;
  double seconds = 0;  // how long a freeze, an outage or a partition lasts

  bool cuts() const { return act == Act::Outage || act == Act::Partition; }
};

// What the link of one node plays of the outages and partitions.
struct LinkCut {
  Duration begins;  // since training started
  Duration ends;
  std::optional<proto::NodeId> other = {};  // the other side of a partition; nothing: all
};

// "pi-0 crashes", "server 1 freezes for 20 s".
std::string describe(const ChurnEvent& event);

// config.churn <- the sections and traces, one event a node, in the order of their times. Requires:
// the groups of workers are known, and their traces.
void read_churn(const ConfigTable& root, ClusterConfig& config);

// The workers that no group has, in the order of their first events.
std::vector<std::string> additional_workers(const ClusterConfig& config);
// Of a partition between a worker and a server the worker's link has the cut.
std::vector<LinkCut> cuts_of_worker(const ClusterConfig& config, const std::string& worker);
std::vector<LinkCut> cuts_of_server(const ClusterConfig& config, int server);
// Whether `worker` is absent when training starts.
bool absent_at_start(const ClusterConfig& config, const std::string& worker);
// A server crashes: so servers must keep snapshots.
bool servers_crash(const ClusterConfig& config);
// The scheduler crashes: so it must keep a journal.
bool scheduler_crashes(const ClusterConfig& config);

}  // namespace rubato::cluster
