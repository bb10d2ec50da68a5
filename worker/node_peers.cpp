#include "worker/node_peers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/log.hpp"

namespace rubato::worker {

using proto::NodeId;
using proto::PeerId;
using proto::Role;

Result<void> NodePeers::connect_scheduler(const std::string& endpoint) {
  return connect({Role::Scheduler}, endpoint);
}

Result<void> NodePeers::connect_servers(const proto::ShardMap& shards) {
  const auto count = static_cast<std::uint32_t>(shards.shards.size());
  std::erase_if(places_, [count](const auto& place) {
    return place.first.role == Role::Server && place.first.index >= count;
  });
  for (std::uint32_t i = 0; i < count; ++i)
    RUBATO_TRY(connect({Role::Server, i}, shards.shards[i].endpoint));
  return {};
}

Result<void> NodePeers::connect(NodeId node, const std::string& endpoint) {
  const auto place = places_.find(node);
  if (place != places_.end() && connections_[place->second].endpoint == endpoint) return {};
  const auto known = std::ranges::find(connections_, endpoint, &Connection::endpoint);
  const auto at = static_cast<std::size_t>(known - connections_.begin());
  if (known == connections_.end()) {
    RUBATO_ASSIGN(const PeerId peer, transport_.connect(endpoint));
    connections_.push_back({peer, endpoint});
  }
  places_[node] = at;
  return {};
}

Result<std::size_t> NodePeers::send(NodeId to, const proto::Message& message) {
  const auto place = places_.find(to);
  RUBATO_CHECK(place != places_.end(), "a core sends only to nodes that were connected");
  Connection& connection = connections_[place->second];
  auto sent = transport_.send(connection.peer, message);
  if (!sent && connection.reached)
    log_warning(fmt::format("cannot reach {}: {}", name(to), sent.error().message));
  connection.reached = sent.has_value();
  return sent;
}

Result<bool> NodePeers::accept(proto::Received& received) const {
  const auto node = node_of(received.from);
  if (!node) return false;
  if (!received.message) {
    const Error& error = received.message.error();
    if (error.code == ErrorCode::Refused)
      return fail(error.code, fmt::format("{}: {}", name(*node), error.message));
    log_warning(fmt::format("dropped a frame of {}: {}", name(*node), error.message));
    return false;
  }
  NodeId& sender = received.message->sender;
  if (node->role != Role::Server || sender == *node) return true;
  if (!std::holds_alternative<proto::Refusal>(received.message->body)) return false;
  sender = *node;
  return true;
}

std::optional<NodeId> NodePeers::node_of(PeerId peer) const {
  for (const auto& [node, place] : places_)
    if (connections_[place].peer == peer) return node;
  return std::nullopt;
}

std::string NodePeers::name(NodeId node) const {
  return fmt::format("{} at {}", to_string(node), connections_[places_.at(node)].endpoint);
}

}  // namespace rubato::worker
