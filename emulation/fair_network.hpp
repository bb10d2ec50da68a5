// emulation/fair_network.hpp - bytes in flight between nodes on virtual time: each node has an up
// and a down capacity, shared fairly (max-min) by the transfers on it.
// Source: max-min fairness by progressive filling, Bertsekas and Gallager, Data Networks, 6.5.2.
// A transfer is one message; the messages from one node to another go one after the other.
// Pure: no randomness; latency is the caller's. Units: bytes, bytes per second. Threads: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace rubato::emulation {

class FairNetwork {
 public:
  using Node = std::uint32_t;

  // Capacity 0 is unlimited. Returns: nodes are numbered from 0 in the order of adding.
  Node add_node(double up_bytes_per_second, double down_bytes_per_second);

  // Puts a message in line. Requires: now >= every earlier now.
  void send(Instant now, Node from, Node to, std::uint64_t bytes, std::uint64_t tag);

  // When the next transfer ends, if any is under way.
  std::optional<Instant> next_completion() const { return next_completion_; }

  struct Completed {
    Node from;
    Node to;
    std::uint64_t tag;
  };
  // Moves all transfers on to `now`. Returns: those that ended, in the order of their pairs.
  std::vector<Completed> advance(Instant now);

 private:
  struct Transfer {
    double remaining = 0;
    std::uint64_t tag = 0;
  };
  struct Pair {
    std::deque<Transfer> queue;  // the front one is under way
    double rate = 0;             // bytes per second; infinite when neither end has a limit
  };
  struct Capacity {
    double up = 0;
    double down = 0;
  };

  void progress(Instant now);
  void share();

  std::vector<Capacity> nodes_;
  std::map<std::pair<Node, Node>, Pair> active_;  // only pairs with transfers
  Instant now_;
  std::optional<Instant> next_completion_;
};

}  // namespace rubato::emulation
