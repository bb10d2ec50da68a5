// proto/zmq_transport.hpp - Transport over ZeroMQ: one ROUTER, which listens and connects, so that
// a wait is one blocking receive. docs/protocol.md lists the socket options and why.
// With keys, who reaches the listener must prove one that is allowed, and connections go to the
// owner of the named key alone. A handshake that fails is an error, or a line in the log.
// A message is exactly two parts (control, payload). Whatever else arrives is one Received error.
// A peer that makes the listener hold too much is cut off (proto/zmq_connections.hpp).
// Errors: cppzmq's exceptions end here, as Results. Threads: as Transport.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/trace.hpp"
#include "proto/codec.hpp"
#include "proto/transport.hpp"

namespace rubato::proto {

struct ZmqOptions {
  Duration send_timeout = kSendTimeout;
  // How long the destructor waits for unsent messages, such as the last Leave or Stop.
  Duration linger = Duration::from_ms(1000);
  // What a peer's transport said to this one by signal(); it ends a receive(). None: dropped.
  std::function<void(PeerId, std::span<const std::byte>)> on_signal = nullptr;
  // Where encoding and receiving are recorded; null: nowhere. Its thread is the transport's.
  TraceLane* trace = nullptr;
  // CURVE on all connections, both ways. Null: none.
  std::shared_ptr<const Keys> keys = nullptr;
  // The largest payload that the listener has a use for.
  std::size_t payload_bytes_max = kPayloadBytesMax;
  // Nodes that may send such a message to the listener at a time. Unfinished messages of more than
  // these are cut off.
  std::size_t peers = 64;
};

// The first bytes of a signal's control frame, where a message has "RBTO". Its payload is empty.
inline constexpr std::string_view kSignalMagic = "RBTS";

class ZmqTransport final : public Transport {
 public:
  explicit ZmqTransport(const ZmqOptions& options = {});
  ~ZmqTransport() override;

  Result<std::string> listen(const std::string& endpoint) override;
  using Transport::connect;
  Result<PeerId> connect(const std::string& endpoint, const std::string& public_key) override;
  Result<std::size_t> send(PeerId to, const Message& message) override;
  Result<std::optional<Received>> receive(Duration timeout) override;
  void wake() override;
  // Tells the peer's transport something behind all messages sent so far. Never waits. Returns
  // false when the peer is gone or its queue full. Requires: starts with kSignalMagic.
  bool signal(PeerId to, std::span<const std::byte> bytes);
  // Whether messages of this peer are heard; `who`: what its key proved, null without keys.
  struct PeerInfo {
    bool heard = true;
    std::shared_ptr<const Identity> who = nullptr;
  };
  PeerInfo info_of(PeerId peer) const;
  // One more descriptor: when it is readable, receive() waits no longer. -1: none, and cheaper.
  void watch(int descriptor);

 private:
  class Sockets;
  std::unique_ptr<Sockets> sockets_;
  TraceLane* trace_;
};

}  // namespace rubato::proto
