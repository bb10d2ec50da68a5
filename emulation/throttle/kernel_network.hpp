// emulation/throttle/kernel_network.hpp - hosts of this machine whose links the kernel shapes: each
// is a network namespace, with a cable (veth) to one bridge. tbf shapes what enters the cable at
// either end: up at the host's, down at the bridge's. netem adds latency, jitter and loss there.
// The namespaces have no names, so the kernel removes all of it with the last process in them,
// whatever ended that process.
// Needs root, and ip and tc of Debian's iproute2.
// Threads: one owner. It and the threads that it starts are at the bridge meanwhile.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "cluster/cluster_config.hpp"
#include "emulation/throttle/link_check.hpp"

namespace rubato::emulation {

class KernelNetwork {
 public:
  struct Host {
    Descriptor space;  // its network namespace, for setns
    std::string address;
  };

  // Moves the calling thread to the bridge. Unsupported where that is not allowed.
  [[nodiscard]] static Result<std::unique_ptr<KernelNetwork>> make();
  // `before`: the namespace that the thread goes back to at the end.
  explicit KernelNetwork(Descriptor before) : before_(std::move(before)) {}
  ~KernelNetwork();
  KernelNetwork(const KernelNetwork&) = delete;
  KernelNetwork& operator=(const KernelNetwork&) = delete;

  // Of this process, at the bridge.
  static std::string address() { return "10.78.0.1"; }
  // Unsupported where the kernel has no netem and the link needs it. `unchecked`: then a warning
  // says what is left out.
  [[nodiscard]] Result<void> add(const std::string& name, const cluster::LinkModel& link,
                                 bool unchecked);
  // Requires: it was added.
  const Host& host(const std::string& name) const { return hosts_.at(name); }
  // What the host's link delivers: as measure_link().
  [[nodiscard]] Result<LinkCheck> measure(const std::string& name,
                                          const cluster::LinkModel& link) const;

 private:
  Descriptor before_;
  bool told_ = false;  // that latencies are left out
  std::map<std::string, Host> hosts_;
};

}  // namespace rubato::emulation
