// cli/host_link.hpp - the emulated link of a process with --throttle: made, measured and told to
// the user before the first connection. A process without --throttle, or without a link in its
// cluster file, uses the machine's own network.
// Threads: the relay has one; the methods are its owner's.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "cli/commands.hpp"
#include "cluster/cluster_config.hpp"
#include "cluster/make_transport.hpp"
#include "emulation/throttle/relay.hpp"

namespace rubato::cli {

class HostLink {
 public:
  // `name`: of the node; latencies of two nodes vary by themselves. BadInput when the link is not
  // delivered.
  [[nodiscard]] static Result<HostLink> make(const Throttle& throttle,
                                             const cluster::LinkModel& link, std::uint64_t seed,
                                             const std::string& name);
  // For make_transport; null: the machine's own network. Lifetime: this object's.
  const cluster::LinkWays* ways() const { return relay_ ? ways_.get() : nullptr; }

 private:
  std::unique_ptr<emulation::Relay> relay_;
  std::unique_ptr<cluster::LinkWays> ways_;
};

}  // namespace rubato::cli
