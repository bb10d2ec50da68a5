// emulation/virtual_network.hpp - messages between virtual nodes: encoded by the real codec,
// carried by the link models, decoded when they arrive. A message takes its turn on both ends'
// bandwidth (FairNetwork), then the latency of both ends; it never overtakes an earlier one between
// the same two nodes. Deterministic for a seed. Threads: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "cluster/cluster_config.hpp"
#include "emulation/fair_network.hpp"
#include "proto/codec.hpp"

namespace rubato::emulation {

class VirtualNetwork {
 public:
  using Node = FairNetwork::Node;
  using Tag = std::uint64_t;  // of one message under way

  explicit VirtualNetwork(std::uint64_t seed) : seed_(seed) {}

  // Returns: nodes are numbered from 0 in the order of adding.
  Node add_node(const cluster::LinkModel& link);
  // The node's bandwidth is from `now` on what its trace says `at` that time. Without `at`:
  // training has not started, and the bandwidth is the trace's first one above 0. A node that has
  // such a trace gets its first bandwidth before anything is sent.
  void follow(Instant now, Node node, const cluster::NodeTrace& trace, std::optional<Duration> at);
  // As FairNetwork: a partition between two nodes, or an outage of one, begins or ends. What has
  // passed the links already arrives.
  void cut(Instant now, Node a, Node b, bool is_cut) { transfers_.cut(now, a, b, is_cut); }
  Node node_count() const { return static_cast<Node>(links_.size()); }

  // A node has another life, or none. What is under way to the earlier one is dropped; so is what
  // it has sent, if it `crashed`. Dropped bytes still take their turn on the links.
  void end_life(Node node, bool crashed);

  std::uint32_t life(Node node) const { return lives_[node].number; }

  // `cause`: for InFlight. Returns: the bytes it costs on the wire.
  std::uint64_t send(Instant now, Node from, Node to, const proto::Message& message,
                     std::uint64_t cause = 0);

  // When advance() next has something to do.
  std::optional<Instant> poll_wakeup() const { return transfers_.next_completion(); }

  struct Arrival {
    Instant at;
    Node to = 0;
    Tag tag = 0;
  };
  // The messages whose last byte left by `now`, and when each will arrive. Lifetime: of the result,
  // until the next call.
  std::span<const Arrival> advance(Instant now);

  struct InFlight {
    Node from = 0;
    Node to = 0;
    std::uint64_t wire_bytes = 0;
    proto::Encoded frames;
    std::uint32_t from_life = 0;
    std::uint32_t to_life = 0;
    std::uint64_t cause = 0;  // the activity that sent it (CriticalPath)
    // Once its last byte has passed the links:
    Instant passed = {};
    Instant arrives = {};      // then the latency of both ends is over
    bool narrow_down = false;  // the link of `to` was the narrow one, not that of `from`
  };
  const InFlight& at(Tag tag) const { return in_flight_[tag]; }
  // Whether a life that has ended since takes the message with it.
  bool lost(Tag tag) const {
    const InFlight& message = in_flight_[tag];
    return message.to_life != lives_[message.to].number ||
           message.from_life < lives_[message.from].crashed;
  }
  // The network forgets a lost message.
  void drop(Tag tag);
  // Mean latency of the node's link.
  Duration mean_latency(Node node) const { return latencies_[node].mean; }
  // The message, which the network then forgets.
  proto::Message take(Tag tag);

 private:
  Duration latency(Node node);
  // How long the end of a message waits for a packet that the node's link has lost.
  Duration resent(Node node, double bytes_per_second, std::uint64_t bytes);

  std::uint64_t seed_;
  FairNetwork transfers_;
  struct Latency {
    Duration mean;
    bool varies = false;  // from one message to the next
  };
  std::vector<Latency> latencies_;         // by node
  std::vector<cluster::LinkModel> links_;  // by node
  std::vector<Rng> latency_rng_;           // by node
  struct Life {
    std::uint32_t number = 0;   // how many have ended
    std::uint32_t crashed = 0;  // the number after the last crash
  };
  std::vector<Life> lives_;                                  // by node
  std::unordered_map<std::uint64_t, Instant> last_arrival_;  // by pair, where latency varies
  std::vector<InFlight> in_flight_;                          // by tag
  std::vector<Tag> free_tags_;                               // of messages that have arrived
  std::vector<Arrival> arrivals_;
};

}  // namespace rubato::emulation
