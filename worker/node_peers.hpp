// worker/node_peers.hpp - the connections of a worker or evaluator: one to the scheduler, one to
// each server once the shard map is known. Threads: the transport's owner.
#pragma once

#include <map>
#include <string>

#include "base/result.hpp"
#include "proto/messages.hpp"
#include "proto/transport.hpp"

namespace rubato::worker {

class NodePeers {
 public:
  explicit NodePeers(proto::Transport& transport) : transport_(transport) {}

  [[nodiscard]] Result<void> connect_scheduler(const std::string& endpoint);
  // Cheap to repeat: servers already connected are left alone.
  [[nodiscard]] Result<void> connect_servers(const proto::ShardMap& shards);
  // Returns: bytes on the wire. A message that cannot be sent is logged: the cores' own deadlines
  // notice what is missing.
  [[nodiscard]] Result<std::size_t> send(proto::NodeId to, const proto::Message& message);

 private:
  proto::Transport& transport_;
  std::map<proto::NodeId, proto::PeerId> peers_;
};

}  // namespace rubato::worker
