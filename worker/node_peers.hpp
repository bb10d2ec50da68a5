// worker/node_peers.hpp - the connections of a worker or evaluator: one to the scheduler, one to
// each server of the shard map. A worker that outlives its cluster hears of other servers, or of
// the same ones in another order; who a node is goes by the map that was told last.
// Threads: the transport's owner.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "proto/messages.hpp"
#include "proto/transport.hpp"

namespace rubato::worker {

class NodePeers {
 public:
  explicit NodePeers(proto::Transport& transport) : transport_(transport) {}

  [[nodiscard]] Result<void> connect_scheduler(const std::string& endpoint);
  // Cheap to repeat: servers that are where they were keep their connections. A transport cannot
  // end a connection, so one that no server has any more stays, for the next one at its endpoint.
  [[nodiscard]] Result<void> connect_servers(const proto::ShardMap& shards);
  // Returns: bytes on the wire. A message that cannot be sent is logged, once until the node takes
  // one again: the cores' own deadlines notice what is missing.
  [[nodiscard]] Result<std::size_t> send(proto::NodeId to, const proto::Message& message);
  // Whether a core is to hear what has arrived. False for whatever comes from where no node of the
  // map is, for a frame that did not decode, which is logged, and for what a server sent as the one
  // that it was before. Where a server refuses, the sender becomes the node that it is to us: it
  // may not know yet. Refused, naming the node, when it speaks another protocol version.
  [[nodiscard]] Result<bool> accept(proto::Received& received) const;

 private:
  struct Connection {
    proto::PeerId peer = 0;
    std::string endpoint;
    bool reached = true;  // the last message was sent
  };
  [[nodiscard]] Result<void> connect(proto::NodeId node, const std::string& endpoint);
  std::optional<proto::NodeId> node_of(proto::PeerId peer) const;
  std::string name(proto::NodeId node) const;  // "server 1 at tcp://10.0.0.2:5700"

  proto::Transport& transport_;
  std::vector<Connection> connections_;          // all that were ever made
  std::map<proto::NodeId, std::size_t> places_;  // of those in use, in connections_
};

}  // namespace rubato::worker
