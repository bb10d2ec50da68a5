#include "worker/node_peers.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

namespace rubato::worker {

using proto::NodeId;
using proto::Role;

Result<void> NodePeers::connect_scheduler(const std::string& endpoint) {
  RUBATO_ASSIGN(peers_[NodeId{Role::Scheduler}], transport_.connect(endpoint));
  return {};
}

Result<void> NodePeers::connect_servers(const proto::ShardMap& shards) {
  for (std::uint32_t i = 0; i < shards.shards.size(); ++i) {
    const NodeId node{Role::Server, i};
    if (peers_.contains(node)) continue;
    RUBATO_ASSIGN(peers_[node], transport_.connect(shards.shards[i].endpoint));
  }
  return {};
}

Result<std::size_t> NodePeers::send(NodeId to, const proto::Message& message) {
  const auto peer = peers_.find(to);
  RUBATO_CHECK(peer != peers_.end(), "a core sends only to nodes that were connected");
  auto sent = transport_.send(peer->second, message);
  if (!sent) log_warning("cannot reach " + to_string(to) + ": " + sent.error().message);
  return sent;
}

}  // namespace rubato::worker
