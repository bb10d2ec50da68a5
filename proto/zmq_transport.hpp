// proto/zmq_transport.hpp - Transport over ZeroMQ: a ROUTER for the listener, a DEALER for each
// connection, one poll over all of them. docs/protocol.md lists the socket options and why.
// A message is exactly two parts (control, payload). Whatever else arrives is one Received error.
// Errors: cppzmq's exceptions end here, as Results. Threads: as Transport.
#pragma once

#include <memory>

#include "base/trace.hpp"
#include "proto/transport.hpp"

namespace rubato::proto {

struct ZmqOptions {
  Duration send_timeout = kSendTimeout;
  // How long the destructor waits for unsent messages, such as the last Leave or Stop.
  Duration linger = Duration::from_ms(1000);
  // Where encoding and receiving are recorded; null: nowhere. Its thread is the transport's.
  TraceLane* trace = nullptr;
};

class ZmqTransport final : public Transport {
 public:
  explicit ZmqTransport(ZmqOptions options = {});
  ~ZmqTransport() override;

  Result<std::string> listen(const std::string& endpoint) override;
  Result<PeerId> connect(const std::string& endpoint) override;
  Result<std::size_t> send(PeerId to, const Message& message) override;
  Result<std::optional<Received>> receive(Duration timeout) override;
  void wake() override;

 private:
  class Sockets;
  std::unique_ptr<Sockets> sockets_;
  TraceLane* trace_;
};

}  // namespace rubato::proto
