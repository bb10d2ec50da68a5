// tests/integration/relay.hpp - a TCP relay between a node and the rest of its cluster, which keeps
// every byte that the node sends.
// Threads: one of its own; the caller's for all methods.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace rubato::integration {

// A port of this machine that was free a moment ago.
int free_port();

class Relay {
 public:
  // Listens on a free port; each connection to it is connected to `target_port` of this machine.
  explicit Relay(int target_port);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string endpoint() const;  // "tcp://127.0.0.1:PORT"
  // What was sent towards the target so far, a stream for each connection.
  std::vector<std::string> sent() const;

 private:
  void run(const std::stop_token& stop);

  int listener_ = -1;
  int port_ = 0;
  int target_port_;
  mutable std::mutex mutex_;
  std::vector<std::string> sent_;
  std::jthread thread_;  // last: it ends first
};

}  // namespace rubato::integration
