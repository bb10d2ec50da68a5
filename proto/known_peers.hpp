// proto/known_peers.hpp - who reached a listener with keys: the identity of each connection, and
// which of them lost their permission since.
// Pure. Memory: kConnectionsMax connections for each identity; the oldest is forgotten, and then is
// nobody's. Threads: one owner.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proto/identity.hpp"

namespace rubato::proto {

class KnownPeers {
 public:
  static constexpr std::size_t kConnectionsMax = 64;
  // By the User-Id of their connections, which names the key, too.
  using Allowed = std::map<std::string, std::shared_ptr<const Identity>, std::less<>>;

  // From now on these may speak. Connections of others are revoked.
  void allow(std::shared_ptr<const Allowed> allowed) {
    allowed_ = std::move(allowed);
    for (const auto& [user, connections] : connections_) {
      if (allowed_->contains(user)) continue;
      for (const PeerId peer : connections) {
        revoked_.push_back({peer, peers_.at(peer)});
        peers_.erase(peer);
      }
    }
    std::erase_if(connections_,
                  [this](const auto& each) { return !allowed_->contains(each.first); });
  }

  // The first message of a connection. Returns: null for one that may not speak.
  std::shared_ptr<const Identity> introduce(PeerId peer, std::string_view user) {
    const auto who = allowed_->find(user);
    if (who == allowed_->end()) return nullptr;
    auto& connections = connections_[who->first];
    if (connections.size() >= kConnectionsMax) {
      peers_.erase(connections.front());
      connections.pop_front();
    }
    connections.push_back(peer);
    return peers_[peer] = who->second;
  }

  // Null: not introduced, revoked or forgotten.
  std::shared_ptr<const Identity> find(PeerId peer) const {
    const auto at = peers_.find(peer);
    return at == peers_.end() ? nullptr : at->second;
  }

  struct Revoked {
    PeerId peer = 0;
    std::shared_ptr<const Identity> who;
  };
  // Each once.
  std::optional<Revoked> poll_revoked() {
    if (revoked_.empty()) return std::nullopt;
    Revoked next = std::move(revoked_.front());
    revoked_.pop_front();
    return next;
  }

 private:
  std::shared_ptr<const Allowed> allowed_ = std::make_shared<const Allowed>();
  std::map<PeerId, std::shared_ptr<const Identity>> peers_;
  std::map<std::string, std::deque<PeerId>, std::less<>> connections_;  // the newest last
  std::deque<Revoked> revoked_;
};

}  // namespace rubato::proto
