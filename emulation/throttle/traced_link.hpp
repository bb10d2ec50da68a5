// emulation/throttle/traced_link.hpp - a host's link in real time that follows a trace of its
// bandwidth: it changes the relay at each change of the trace.
// Threads: one of its own, from follow() on; the methods are its owner's.
#pragma once

#include <memory>
#include <thread>

#include "cluster/cluster_config.hpp"
#include "emulation/throttle/relay.hpp"

namespace rubato::emulation {

class TracedLink {
 public:
  // Until follow() the link has the values of the trace's time 0.
  // `trace`: may be null, or say nothing of bandwidth. Lifetime: the relay's, longer than this.
  TracedLink(Relay& relay, const cluster::LinkModel& link,
             std::shared_ptr<const cluster::NodeTrace> trace);
  // The trace's time 0 is `began`. Only the first call counts.
  void follow(Instant began);

 private:
  void set(Duration at);
  void run(const std::stop_token& stop, Instant began);

  Relay& relay_;
  cluster::LinkModel link_;
  std::shared_ptr<const cluster::NodeTrace> trace_;  // null: the link does not change
  std::jthread thread_;
};

}  // namespace rubato::emulation
