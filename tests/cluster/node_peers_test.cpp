// Who is who to a worker or evaluator whose servers move, change places or go.
#include "cluster/node_peers.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <utility>

#include "proto/memory_transport.hpp"

namespace rubato::cluster {
namespace {

using proto::NodeId;
using proto::Role;

constexpr NodeId kScheduler{Role::Scheduler, 0};
constexpr NodeId kServer0{Role::Server, 0};
constexpr NodeId kServer1{Role::Server, 1};

// A listener of the test's; knows whom to answer once it was sent something.
class Listener {
 public:
  Listener(std::shared_ptr<proto::MemoryHub> hub, const std::string& endpoint)
      : transport_(std::move(hub)) {
    REQUIRE(transport_.listen(endpoint));
  }
  // The sequence of the pull that has arrived here; 0: none has.
  Sequence pull() {
    const auto received = transport_.receive({});
    REQUIRE(received);
    if (!*received) return 0;
    peer = (*received)->from;
    return std::get<proto::Pull>((*received)->message->body).sequence;
  }
  void say(NodeId claimed, proto::Body body) {
    REQUIRE(transport_.send(peer, {.cluster = 1,
                                   .sender = claimed,
                                   .incarnation = 1,
                                   .body = std::move(body),
                                   .payload = {}}));
  }

  proto::PeerId peer = 0;

 private:
  proto::MemoryTransport transport_;
};

struct World {
  std::shared_ptr<proto::MemoryHub> hub = std::make_shared<proto::MemoryHub>();
  Listener scheduler{hub, "mem://scheduler"};
  Listener a{hub, "mem://a"};
  Listener b{hub, "mem://b"};
  proto::MemoryTransport transport{hub};
  NodePeers peers{transport};

  World() { REQUIRE(peers.connect_scheduler("mem://scheduler")); }

  void told(const std::vector<std::string>& endpoints) {
    proto::ShardMap map;
    for (const auto& endpoint : endpoints) map.shards.push_back({{}, endpoint});
    REQUIRE(peers.connect_servers(map));
  }
  void send(NodeId to, Sequence sequence) {
    REQUIRE(transport.send(peers.peer_of(to), {.cluster = 1,
                                               .sender = {Role::Worker, 0},
                                               .incarnation = 1,
                                               .body = proto::Pull{sequence},
                                               .payload = {}}));
  }
  // Who the next message is of, to a core; nobody: it is not to hear it.
  std::optional<NodeId> heard() {
    auto received = transport.receive({});
    REQUIRE(received);
    REQUIRE(*received);
    return peers.sender_of((*received)->from, *(*received)->message);
  }
};

TEST_CASE("a server at another endpoint is reached there, and not heard from where it was") {
  World world;
  world.told({"mem://a"});
  world.send(kServer0, 1);
  CHECK(world.a.pull() == 1);
  world.a.say(kServer0, proto::Heartbeat{});
  CHECK(world.heard() == kServer0);
  world.told({"mem://b"});
  world.send(kServer0, 2);
  CHECK(world.a.pull() == 0);
  CHECK(world.b.pull() == 2);
  world.a.say(kServer0, proto::Heartbeat{});
  CHECK_FALSE(world.heard());
  world.a.say(kServer0, proto::Refusal{proto::RefusalCode::NotMember, "who?"});
  CHECK_FALSE(world.heard());
  world.b.say(kServer0, proto::Heartbeat{});
  CHECK(world.heard() == kServer0);
}

TEST_CASE(
    "servers that have changed places are reached where they are, over the same connections") {
  World world;
  world.told({"mem://a", "mem://b"});
  world.send(kServer0, 1);
  world.send(kServer1, 1);
  CHECK(world.a.pull() == 1);
  CHECK(world.b.pull() == 1);
  const auto of_a = world.a.peer, of_b = world.b.peer;
  world.told({"mem://b", "mem://a"});
  world.send(kServer0, 2);
  world.send(kServer1, 3);
  CHECK(world.b.pull() == 2);
  CHECK(world.a.pull() == 3);
  CHECK(world.a.peer == of_a);
  CHECK(world.b.peer == of_b);
  world.a.say(kServer0, proto::Heartbeat{});  // late, of the one that it was
  CHECK_FALSE(world.heard());
  world.a.say(kServer1, proto::Heartbeat{});
  CHECK(world.heard() == kServer1);
}

TEST_CASE("a server that is no more is not heard, and the others and the scheduler are") {
  World world;
  world.told({"mem://a", "mem://b"});
  world.send(kServer1, 1);
  CHECK(world.b.pull() == 1);
  world.told({"mem://a"});
  world.b.say(kServer1, proto::Heartbeat{});
  CHECK_FALSE(world.heard());
  world.send(kServer0, 2);
  CHECK(world.a.pull() == 2);
  world.send(kScheduler, 3);
  CHECK(world.scheduler.pull() == 3);
  world.scheduler.say(kScheduler, proto::Heartbeat{});
  CHECK(world.heard() == kScheduler);
}

TEST_CASE("a server that does not know yet which one it is refuses as the one that it is to us") {
  World world;
  world.told({"mem://a", "mem://b"});
  world.send(kServer1, 1);
  CHECK(world.b.pull() == 1);
  world.b.say(kServer0, proto::Refusal{proto::RefusalCode::NotMember, "who?"});
  CHECK(world.heard() == kServer1);
}

TEST_CASE("a node is named by its role and its endpoint, a peer where no node is has no name") {
  World world;
  world.told({"mem://a"});
  world.send(kServer0, 1);
  CHECK(world.a.pull() == 1);
  const auto peer = world.peers.peer_of(kServer0);
  CHECK(world.peers.address_of(peer) == kServer0);
  CHECK(world.peers.name(kServer0) == "server 0 at mem://a");
  world.told({"mem://b"});
  CHECK_FALSE(world.peers.address_of(peer));
  CHECK(world.peers.name(kServer0) == "server 0 at mem://b");
}

TEST_CASE("each node is told with its endpoint, again only when it has moved") {
  World world;
  std::string told;
  world.peers.on_located([&](NodeId node, const std::string& endpoint) {
    told += to_string(node) + " " + endpoint + ", ";
  });
  world.told({"mem://a", "mem://b"});
  world.told({"mem://a", "mem://b"});
  world.told({"mem://b", "mem://b"});
  CHECK(told == "server 0 mem://a, server 1 mem://b, server 0 mem://b, ");
}

}  // namespace
}  // namespace rubato::cluster
