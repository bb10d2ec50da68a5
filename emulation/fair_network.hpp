// emulation/fair_network.hpp - bytes in flight between nodes on virtual time: each node has an up
// and a down capacity, shared fairly (max-min) by the transfers on it.
// Source: max-min fairness by progressive filling, Bertsekas and Gallager, Data Networks, 6.5.2.
// A transfer is one message; the messages from one node to another go one after the other.
// Cost: without limits a message costs O(1). With them, a transfer that begins or ends touches only
// those it shares a limited link with, and those that these share one with, and so on.
// Pure: no randomness; latency is the caller's. Units: bytes, bytes per second. Threads: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.hpp"

namespace rubato::emulation {

class FairNetwork {
 public:
  using Node = std::uint32_t;

  // Capacity 0 is unlimited. Returns: nodes are numbered from 0 in the order of adding.
  Node add_node(double up_bytes_per_second, double down_bytes_per_second);

  // From `now` on the link up from a node, or down to it, carries so much; 0: nothing passes.
  // Requires: now >= every earlier now; it has a limit already, or nothing was sent yet.
  enum class Way { Up, Down };
  void set_capacity(Instant now, Node node, Way way, double bytes_per_second);

  // Cuts the way between two nodes, or ends that; of a node and itself: its whole link. Nothing
  // passes a way that is cut: what is under way waits. Cost: it looks at every pair that had a
  // transfer of its own. Requires: now >= every earlier now.
  void cut(Instant now, Node a, Node b, bool is_cut);

  // Puts a message in line. Requires: now >= every earlier now.
  void send(Instant now, Node from, Node to, std::uint64_t bytes, std::uint64_t tag);

  // When the next transfer ends, if any is under way.
  std::optional<Instant> next_completion() const;

  struct Completed {
    Node from;
    Node to;
    std::uint64_t tag;
    bool narrow_down = false;  // the link down to `to` set its last rate, not that up from `from`
  };
  // Moves all transfers on to `now`. Returns: those that ended, in the order of their pairs of
  // nodes. Lifetime: of the result, until the next call.
  std::span<const Completed> advance(Instant now);

 private:
  using FlowId = std::uint32_t;
  using LinkId = std::uint32_t;  // 2 node: up from it; 2 node + 1: down to it

  // The messages from one node to another where either end has a limit, or the way was cut.
  struct Flow {
    Node from = 0;
    Node to = 0;
    struct Transfer {
      double bytes = 0;
      std::uint64_t tag = 0;
    };
    std::deque<Transfer> queue;  // the front one is under way
    bool held = false;           // its way is cut; then it is in no list
    bool narrow_down = false;    // which of its two links sets its rate
    double rate = 0;             // bytes per second
    double remaining = 0;        // bytes of the front one, at `updated`
    Instant updated;
    Instant ends;                      // of the front one, at this rate
    std::uint32_t place = 0;           // in by_end_
    std::uint32_t places[2] = {0, 0};  // in the lists of its two links, where they have a limit
    std::uint64_t seen = 0;            // by the last search that met it
  };
  struct Link {
    double capacity = 0;        // infinite without a limit
    std::vector<FlowId> flows;  // those under way, where it has a limit
    std::uint64_t seen = 0;
    double free = 0;  // in share(): capacity not given away yet, and to how many it will be
    int open = 0;
    bool full = false;
  };

  bool limited(LinkId link) const { return limited_[link]; }
  bool limited(const Flow& flow) const {
    return limited(2 * flow.from) || limited(2 * flow.to + 1);
  }
  bool held(Node from, Node to) const;
  // Holds and releases flows after a cut has begun or ended.
  void hold_flows();
  void check_time(Instant now);
  void begin(FlowId id);
  void end(FlowId id);
  // Finds the fair rates of all flows that depend on `changed`.
  void share(std::span<const LinkId> changed);
  void visit(LinkId link);
  void set_rate(FlowId id, double rate);
  // by_end_ is a binary heap: the first of it ends first.
  bool earlier(FlowId a, FlowId b) const;
  void put(std::size_t place, FlowId id);
  void settle(std::size_t place);
  void remove(std::size_t place);

  std::vector<Link> links_;
  std::vector<bool> limited_;             // by link: the one question that every message asks
  std::set<std::pair<Node, Node>> cuts_;  // the smaller node first
  std::vector<Flow> flows_;               // one a pair that was ever in use
  std::unordered_map<std::uint64_t, FlowId> flow_ids_;  // by pair
  std::vector<FlowId> by_end_;                          // those under way
  std::vector<Completed> at_once_;                      // sent where there is no limit
  std::vector<Completed> completed_;
  std::vector<LinkId> changed_;
  std::vector<FlowId> found_;        // in share(): the flows that depend on each other,
  std::vector<LinkId> found_links_;  // and their links
  std::uint64_t search_ = 0;
  Instant now_;
};

}  // namespace rubato::emulation
