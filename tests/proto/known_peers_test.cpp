// Who reached a listener, and who is out since a key was revoked.
#include "proto/known_peers.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace rubato::proto {
namespace {

std::shared_ptr<const KnownPeers::Allowed> allowed(const std::vector<std::string>& users) {
  auto list = std::make_shared<KnownPeers::Allowed>();
  for (const auto& user : users)
    list->emplace(user, std::make_shared<const Identity>(Identity{Role::Worker, user, ""}));
  return list;
}

TEST_CASE("known peers: only the allowed are introduced") {
  KnownPeers peers;
  CHECK(!peers.introduce(1, "a"));
  peers.allow(allowed({"a"}));
  REQUIRE(peers.introduce(1, "a"));
  CHECK(peers.find(1)->name == "a");
  CHECK(!peers.introduce(2, "b"));
  CHECK(!peers.find(2));
}

TEST_CASE("known peers: all connections of a revoked key are told once, and others stay") {
  KnownPeers peers;
  peers.allow(allowed({"a", "b"}));
  for (const PeerId peer : {1, 2}) REQUIRE(peers.introduce(peer, "a"));
  REQUIRE(peers.introduce(3, "b"));
  peers.allow(allowed({"b"}));
  std::vector<PeerId> out;
  while (const auto revoked = peers.poll_revoked()) {
    CHECK(revoked->who->name == "a");
    out.push_back(revoked->peer);
  }
  std::ranges::sort(out);
  CHECK(out == std::vector<PeerId>{1, 2});
  CHECK(!peers.find(1));
  CHECK(!peers.introduce(1, "a"));
  CHECK(peers.find(3));
  peers.allow(allowed({"b"}));
  CHECK(!peers.poll_revoked());
}

TEST_CASE("known peers: connections without end push out their own kind") {
  KnownPeers peers;
  peers.allow(allowed({"a", "b"}));
  REQUIRE(peers.introduce(1, "b"));
  for (PeerId peer = 2; peer < 2 + 10 * KnownPeers::kConnectionsMax; ++peer)
    REQUIRE(peers.introduce(peer, "a"));
  CHECK(peers.find(1));
  CHECK(!peers.find(2));
  CHECK(peers.find(1 + 10 * KnownPeers::kConnectionsMax));
  peers.allow(allowed({"b"}));
  std::size_t told = 0;
  while (peers.poll_revoked()) ++told;
  CHECK(told == KnownPeers::kConnectionsMax);
}

}  // namespace
}  // namespace rubato::proto
