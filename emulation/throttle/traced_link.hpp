// emulation/throttle/traced_link.hpp - a host's link in real time that changes as a trace of its
// bandwidth says, and has outages and partitions: it tells the relay of each change.
// Threads: one of its own, from follow() on. follow() is the owner's; locate() is for any thread.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/churn.hpp"
#include "cluster/cluster_config.hpp"
#include "emulation/throttle/relay.hpp"

namespace rubato::emulation {

// How one node's link changes over time.
struct LinkChanges {
  std::shared_ptr<const cluster::NodeTrace> trace = nullptr;  // null, or not of bandwidth: none
  std::vector<cluster::LinkCut> cuts = {};

  bool empty() const { return cuts.empty() && !(trace && trace->shapes_link()); }
};

class TracedLink {
 public:
  // Until follow() the link has the trace's first rate above 0 each way, so that the process can
  // join. Lifetime: the relay's, longer than this.
  TracedLink(Relay& relay, const cluster::LinkModel& link, LinkChanges changes);
  // Time 0 of the changes is `began`. Only the first call counts.
  void follow(Instant began);
  // Where the process finds a node from now on: a partition cuts the way there.
  void locate(proto::NodeId node, const std::string& endpoint);

 private:
  // The link of this time; without `at`, of the time before follow().
  void set(std::optional<Duration> at);
  std::optional<Duration> next_change(Duration at) const;
  void run(const std::stop_token& stop, Instant began);

  Relay& relay_;
  cluster::LinkModel link_;
  const LinkChanges changes_;
  std::mutex mutex_;  // guards all below but the thread
  std::map<proto::NodeId, std::string> endpoints_;
  bool located_ = false;  // since the thread last looked
  std::condition_variable_any news_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace rubato::emulation
