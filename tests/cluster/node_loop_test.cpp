// The loop of a node: what cannot be read or sent is one line that says whose it was.
#include "cluster/node_loop.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <regex>

#include "tests/log_of.hpp"
#include "tests/server/server_world.hpp"

namespace rubato::cluster {
namespace {

using server::kSchedulerPeer;
using server::peer_of;
using server::ServerWorld;

// Delivers what it was given, and sends the workers nothing while `deaf`.
class Script final : public proto::Transport {
 public:
  std::deque<proto::Received> incoming;
  bool deaf = false;
  std::size_t sent = 0;
  std::vector<std::string> to_worker;  // bodies

  Result<std::string> listen(const std::string& endpoint) override { return endpoint; }
  Result<proto::PeerId> connect(const std::string&, const std::string&) override { return 1; }
  Result<std::size_t> send(proto::PeerId to, const proto::Message& message) override {
    if (deaf && to != kSchedulerPeer)
      return fail(ErrorCode::Io, "Parameters not sent: the queue is full");
    ++sent;
    if (to == peer_of(3)) to_worker.emplace_back(body_name(message.body));
    return 1;
  }
  Result<std::optional<proto::Received>> receive(Duration) override {
    if (incoming.empty()) return std::nullopt;
    std::optional<proto::Received> next(std::move(incoming.front()));
    incoming.pop_front();
    return next;
  }
  void wake() override {}
};

proto::Received pull_of(std::uint32_t worker) {
  return {peer_of(worker), ServerWorld::message(worker, proto::Pull{1}), 1};
}
proto::Received garbage_of(proto::PeerId peer) {
  return {peer, fail(ErrorCode::Corrupt, "4 bytes are no frame"), 4};
}

struct Loop {
  ServerWorld shard;
  Script transport;
  NodeLoop<server::ServerCore> loop{transport, shard.core};
  Loop() {
    shard.members(1, {0, 3});
    tests::sent(shard.core);
  }

  // Returns: what the loop says while it takes these, without the time of each line.
  std::string take(std::deque<proto::Received> incoming) {
    transport.incoming = std::move(incoming);
    const std::string log = tests::log_of([&] {
      while (!transport.incoming.empty()) REQUIRE(loop.turn(Duration{}));
      loop.flush();
    });
    return std::regex_replace(log, std::regex("(^|\n)[0-9:.]+ "), "$1");
  }
};

TEST_CASE("node loop: a frame that is refused is one line with its sender") {
  Loop loop;
  std::deque<proto::Received> frames;
  frames.push_back({7, ServerWorld::message(0, proto::Hello{}), 1});
  frames.push_back(garbage_of(7));
  frames.push_back(pull_of(3));
  frames.push_back(garbage_of(peer_of(3)));
  CHECK(loop.take(std::move(frames)) ==
        "warning refused a frame of an unknown peer: 4 bytes are no frame\n"
        "warning refused a frame of worker 3: 4 bytes are no frame\n");
  CHECK(loop.shard.core.stats().messages_refused == 3);
}

TEST_CASE("node loop: bad frames of a sender are one line a minute, whatever comes between them") {
  Loop loop;
  std::deque<proto::Received> frames;
  for (int i = 0; i < 1000; ++i) {
    frames.push_back(pull_of(3));
    frames.push_back(garbage_of(peer_of(3)));
    frames.push_back(garbage_of(100 + static_cast<proto::PeerId>(i)));  // each a new connection
  }
  CHECK(loop.take(std::move(frames)) ==
        "warning refused a frame of worker 3: 4 bytes are no frame\n"
        "warning refused a frame of an unknown peer: 4 bytes are no frame\n");
  CHECK(loop.shard.core.stats().messages_refused == 2000);
}

TEST_CASE("node loop: a key speaks for its owner alone") {
  Loop loop;
  const auto by = [](proto::Received received, proto::Role role, const std::string& name) {
    received.identity = std::make_shared<const proto::Identity>(proto::Identity{role, name, ""});
    return received;
  };
  std::deque<proto::Received> frames;
  frames.push_back(by(pull_of(3), proto::Role::Server, "server-1"));
  CHECK(loop.take(std::move(frames)) ==
        "warning refused a frame of an unknown peer: the key of server 'server-1' does not speak "
        "for a worker\n");
  CHECK(loop.shard.core.stats().messages_refused == 1);
  CHECK(loop.transport.to_worker == std::vector<std::string>{"Refusal"});
  std::deque<proto::Received> good;
  good.push_back(by(pull_of(3), proto::Role::Worker, "edge-3"));
  CHECK(loop.take(std::move(good)).empty());
  CHECK(loop.transport.to_worker.size() > 1);
  CHECK(loop.transport.to_worker.back() == "Parameters");
  CHECK(loop.shard.core.stats().messages_refused == 1);
}

TEST_CASE("node loop: a peer whose key was revoked is told, in one line") {
  Loop loop;
  std::deque<proto::Received> frames;
  frames.push_back({.from = peer_of(3),
                    .message = fail(ErrorCode::Gone, "its key was revoked"),
                    .identity = std::make_shared<const proto::Identity>(
                        proto::Identity{proto::Role::Worker, "edge-3", ""}),
                    .revoked = true});
  CHECK(loop.take(std::move(frames)) == "warning the key of worker 'edge-3' was revoked\n");
  CHECK(loop.transport.to_worker == std::vector<std::string>{"Refusal"});
}

TEST_CASE("node loop: a peer that takes nothing is one line a minute") {
  Loop loop;
  for (int time = 0; time < 2; ++time) {
    std::deque<proto::Received> pulls;
    pulls.push_back(pull_of(0));
    pulls.push_back(pull_of(0));
    loop.transport.deaf = true;
    CHECK(loop.take(std::move(pulls)) ==
          (time == 0 ? "warning cannot reach worker 0: Parameters not sent: the queue is full\n"
                     : ""));
    loop.transport.deaf = false;
    std::deque<proto::Received> heard;
    heard.push_back(pull_of(0));
    CHECK(loop.take(std::move(heard)).empty());
  }
  CHECK(loop.transport.sent >= 6);
}

}  // namespace
}  // namespace rubato::cluster
