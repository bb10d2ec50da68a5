#include "cluster/node_peers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"

namespace rubato::cluster {

using proto::NodeId;
using proto::PeerId;
using proto::Role;

Result<void> NodePeers::connect_scheduler(const std::string& endpoint) {
  return connect({Role::Scheduler}, endpoint, {});
}

Result<void> NodePeers::connect_servers(const proto::ShardMap& shards) {
  const auto count = static_cast<std::uint32_t>(shards.shards.size());
  std::erase_if(places_, [count](const auto& place) {
    return place.first.role == Role::Server && place.first.index >= count;
  });
  for (std::uint32_t i = 0; i < count; ++i)
    RUBATO_TRY(connect({Role::Server, i}, shards.shards[i].endpoint, shards.shards[i].public_key));
  return {};
}

Result<void> NodePeers::connect(NodeId node, const std::string& endpoint,
                                const std::string& public_key) {
  const auto same = [&](const Connection& each) {
    return each.endpoint == endpoint && each.public_key == public_key;
  };
  const auto place = places_.find(node);
  if (place != places_.end() && same(connections_[place->second])) return {};
  const auto known = std::ranges::find_if(connections_, same);
  const auto at = static_cast<std::size_t>(known - connections_.begin());
  if (known == connections_.end()) {
    RUBATO_ASSIGN(const PeerId peer, transport_.connect(endpoint, public_key));
    connections_.push_back({peer, endpoint, public_key});
  }
  places_[node] = at;
  if (tell_) tell_(node, endpoint);
  return {};
}

PeerId NodePeers::peer_of(NodeId node) const {
  const auto place = places_.find(node);
  RUBATO_CHECK(place != places_.end(), "a core sends only to nodes that were connected");
  return connections_[place->second].peer;
}

std::optional<NodeId> NodePeers::address_of(PeerId peer) const {
  for (const auto& [node, place] : places_)
    if (connections_[place].peer == peer) return node;
  return std::nullopt;
}

std::optional<NodeId> NodePeers::sender_of(PeerId peer, const proto::Message& message) const {
  const auto node = address_of(peer);
  const bool another = node && node->role == Role::Server && message.sender != *node;
  if (another && !std::holds_alternative<proto::Refusal>(message.body)) return std::nullopt;
  return node;
}

std::string NodePeers::name(NodeId node) const {
  return fmt::format("{} at {}", to_string(node), connections_[places_.at(node)].endpoint);
}

std::string AnyPeers::name(PeerId peer) const {
  const auto sender = senders_.find(peer);
  return sender == senders_.end() ? "an unknown peer" : to_string(sender->second);
}

}  // namespace rubato::cluster
