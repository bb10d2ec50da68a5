// proto/transport.hpp - messages between nodes: one listening endpoint and any number of outgoing
// connections, owned by one thread. Implementations: ZeroMQ (proto/zmq_transport.hpp), shared
// memory within a host and ZeroMQ beyond it (proto/shm/transport.hpp), the memory of one process
// (proto/memory_transport.hpp); tests/proto/transport_conformance.hpp is run by all.
// Threads: one owner for its whole life; only wake() may be called from elsewhere.
// Delivery: in order per peer while the connection lives; lost silently when it breaks, so every
// protocol step that must happen is repeated or probed by a core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/result.hpp"
#include "base/time.hpp"
#include "proto/identity.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

// Messages waiting for one peer (high-water mark): a 4 GiB slice in chunks of 1 MiB.
inline constexpr std::size_t kQueuedMessagesMax = 4096;
// Bytes that may wait for a peer that reached our listener: this much, and twice all parameters
// that it may ask for. Then it is cut off, and a send() to it fails with these words.
inline constexpr std::size_t kUnreadBytesMin = 64u << 20;
inline constexpr const char* kUnreadText = "the peer does not read what it asks for";
inline std::size_t unread_max(const Message& message) {
  const auto* parameters = std::get_if<Parameters>(&message.body);
  return kUnreadBytesMin + (parameters ? 2 * sizeof(float) * parameters->total : 0);
}
inline constexpr Duration kSendTimeout = Duration::from_ms(10'000);

struct Received {
  PeerId from = 0;  // an outgoing connection, one that reached our listener, or 0: no way back
  // The error of a frame that did not decode: the peer sent garbage or another protocol version.
  Result<Message> message;
  std::size_t wire_bytes = 0;
  // Who reached our listener, by its key. Null: a listener without keys, or a connection of ours,
  // whose other end has proved the key that connect() named.
  std::shared_ptr<const Identity> identity = nullptr;
  // No message: the key of this peer was revoked. Nothing comes from it any more, and nothing goes
  // to it but a Refusal. Said once.
  bool revoked = false;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Binds "tcp://HOST:PORT" (port * or 0: any free one). Returns the endpoint with its real port.
  // At most once. Io when the address is taken, naming it; BadInput when it cannot be parsed.
  [[nodiscard]] virtual Result<std::string> listen(const std::string& endpoint) = 0;
  // Connects in the background; messages sent before the peer is there are queued up to the
  // high-water mark. `public_key`: of who listens there; empty: the scheduler's. A transport
  // without keys has no use for it. BadInput for an endpoint that cannot be parsed.
  [[nodiscard]] virtual Result<PeerId> connect(const std::string& endpoint,
                                               const std::string& public_key) = 0;
  [[nodiscard]] Result<PeerId> connect(const std::string& endpoint) {
    return connect(endpoint, {});
  }
  // Waits for a queue that is full with a payload to a connection only, and no longer than the send
  // timeout (kSendTimeout by default). What goes to a peer that reached our listener never waits:
  // one slow worker stops no other. Nor does what has no payload: it is said again, and a scheduler
  // that is gone stops nobody. Returns the bytes on the wire; Io when the peer is gone or its queue
  // is full, BadInput above the codec's limits.
  [[nodiscard]] virtual Result<std::size_t> send(PeerId to, const Message& message) = 0;
  // Waits at most `timeout` for one message. Empty: timeout or wake(). Refused: a node that we
  // connected to does not accept our key, or has no use for keys, or asks for one.
  [[nodiscard]] virtual Result<std::optional<Received>> receive(Duration timeout) = 0;
  // Makes a receive() that waits now, or the next one, return at once. Any thread.
  virtual void wake() = 0;
};

}  // namespace rubato::proto
