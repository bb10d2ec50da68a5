// tests/integration/peers.hpp - peers that a test plays by hand: one that speaks the protocol, and
// one that sends whatever bytes it likes. Both talk to one node of a cluster.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>
#include <zmq.hpp>

#include "base/shareable.hpp"
#include "proto/messages.hpp"
#include "proto/shm/transport.hpp"

namespace rubato::integration {

struct Identity {
  std::uint64_t cluster = 0;
  proto::NodeId node;
  Incarnation incarnation = 1;
};

class HandPeer {
 public:
  // `host`: as ShmOptions::host; it may share memory with that node.
  HandPeer(Identity identity, const std::string& endpoint, const std::string& host = {});

  Identity identity;  // what the next message claims

  void send(proto::Body body, proto::Payload payload = {});
  // Returns: whether it is on its way.
  bool try_send(proto::Body body, proto::Payload payload = {});
  // The next message that holds a Body of this type; others are passed over. The test fails when
  // none comes.
  template <class Body>
  Body expect() {
    while (true) {
      const proto::Message message = receive();
      if (const auto* body = std::get_if<Body>(&message.body)) return *body;
    }
  }
  bool shares_memory() const { return transport_.shared_memory(link_); }

 private:
  proto::Message receive();

  proto::ShmTransport transport_;
  proto::PeerId link_ = 0;
};

// A worker of the cluster, played by hand: joined, pulled, and ready to commit.
struct Member {
  // `hello`: of this worker. The run has one server, which is there: one Hello is enough. `host`:
  // as of HandPeer, towards the server.
  Member(std::uint64_t cluster, const proto::Hello& hello, const std::string& scheduler,
         const std::string& server, const std::string& host = {});
  void commit(Sequence sequence, const std::vector<float>& update);
  // The update stays where it lies.
  void commit(Sequence sequence, const std::shared_ptr<const Floats>& update);

  HandPeer to_scheduler;
  HandPeer to_server;
  std::uint64_t parameters;
};

using Parts = std::vector<std::vector<std::byte>>;

// A message's two frames, as they travel.
Parts parts_of(const proto::Message& message);

class RawPeer {
 public:
  explicit RawPeer(const std::string& endpoint);

  void send(const Parts& parts);
  // The answer to what was sent; the test fails when it is not a Refusal.
  proto::Refusal expect_refusal();

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

}  // namespace rubato::integration
