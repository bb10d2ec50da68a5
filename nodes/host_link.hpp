// nodes/host_link.hpp - the emulated link of a process with --throttle: made, measured and told to
// the user before the first connection. A process without --throttle, or without a link in its
// cluster file, uses the machine's own network.
// Threads: the relay has one, and a trace another one; the methods are for one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/make_transport.hpp"
#include "emulation/throttle/relay.hpp"
#include "emulation/throttle/traced_link.hpp"
#include "nodes/node_options.hpp"

namespace rubato::nodes {

class HostLink {
 public:
  // `changes`: from follow() on. `name`: of the node; latencies of two nodes vary by themselves.
  // BadInput when the link is not delivered.
  [[nodiscard]] static Result<HostLink> make(const Throttle& throttle,
                                             const cluster::LinkModel& link,
                                             emulation::LinkChanges changes, std::uint64_t seed,
                                             const std::string& name);
  // Time 0 of the changes is `began`. Only the first call counts.
  void follow(Instant began) const {
    if (traced_) traced_->follow(began);
  }
  // Where this node finds another one from now on.
  void locate(proto::NodeId node, const std::string& endpoint) const {
    if (traced_) traced_->locate(node, endpoint);
  }
  // For make_transport; null: the machine's own network. Lifetime: this object's.
  const cluster::LinkWays* ways() const { return relay_ ? ways_.get() : nullptr; }

 private:
  std::unique_ptr<emulation::Relay> relay_;
  std::unique_ptr<cluster::LinkWays> ways_;
  std::unique_ptr<emulation::TracedLink> traced_;  // after the relay, which it uses
};

}  // namespace rubato::nodes
