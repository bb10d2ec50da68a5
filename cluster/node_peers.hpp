// cluster/node_peers.hpp - whom the peers of a transport are to the core of a node.
// NodePeers: of a worker or evaluator, which speaks to the scheduler and to each server of the
// shard map. AnyPeers: of a server or the scheduler, which answers whoever asks.
// Both answer the same questions of the loop (cluster/node_loop.hpp). Threads: the transport's
// owner.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "proto/messages.hpp"
#include "proto/transport.hpp"

namespace rubato::cluster {

// Peers of which a loop remembers something. Each new connection is another peer.
inline constexpr std::size_t kKnownPeersMax = 65'536;

// Makes room for one more.
template <class Known>
void keep_bounded(Known& known) {
  if (known.size() >= kKnownPeersMax) known.clear();
}

// A worker that outlives its cluster hears of other servers, or of the same servers in another
// order. The shard map that was told last says which server a peer is.
class NodePeers {
 public:
  explicit NodePeers(proto::Transport& transport) : transport_(transport) {}

  // Called with each node and the endpoint at which it is from now on. May be empty.
  void on_located(std::function<void(proto::NodeId, const std::string& endpoint)> tell) {
    tell_ = std::move(tell);
  }
  [[nodiscard]] Result<void> connect_scheduler(const std::string& endpoint);
  // Cheap to repeat: servers that have not moved keep their connections. A transport cannot end a
  // connection, so an unused one stays for the next server at its endpoint.
  [[nodiscard]] Result<void> connect_servers(const proto::ShardMap& shards);

  // Requires: the node was connected.
  proto::PeerId peer_of(proto::NodeId node) const;
  // Nothing: no node of the map is there.
  std::optional<proto::NodeId> address_of(proto::PeerId peer) const;
  // The node that a core hears. Nothing: no node of the map is there, or a server speaks as the
  // shard that it was before. A refusal is heard all the same: its server may not know its shard.
  std::optional<proto::NodeId> sender_of(proto::PeerId peer, const proto::Message& message) const;
  std::string name(proto::NodeId node) const;  // "server 1 at tcp://10.0.0.2:5700"

 private:
  struct Connection {
    proto::PeerId peer = 0;
    std::string endpoint;
    std::string public_key;
  };
  [[nodiscard]] Result<void> connect(proto::NodeId node, const std::string& endpoint,
                                     const std::string& public_key);

  proto::Transport& transport_;
  std::function<void(proto::NodeId, const std::string&)> tell_;
  std::vector<Connection> connections_;          // all that were ever made
  std::map<proto::NodeId, std::size_t> places_;  // of those in use, in connections_
};

class AnyPeers {
 public:
  explicit AnyPeers(proto::Transport&) {}

  proto::PeerId peer_of(proto::PeerId peer) const { return peer; }
  std::optional<proto::PeerId> address_of(proto::PeerId peer) const { return peer; }
  // Remembers what the sender calls itself. One that says Hello has no number yet.
  std::optional<proto::PeerId> sender_of(proto::PeerId peer, const proto::Message& message) {
    if (!std::holds_alternative<proto::Hello>(message.body)) {
      keep_bounded(senders_);
      senders_[peer] = message.sender;
    }
    return peer;
  }
  std::string name(proto::PeerId peer) const;  // "worker 3", or "an unknown peer"

 private:
  std::unordered_map<proto::PeerId, proto::NodeId> senders_;  // as of their last messages
};

}  // namespace rubato::cluster
