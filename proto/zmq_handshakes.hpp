// proto/zmq_handshakes.hpp - connections that came about and were not let in: what ZeroMQ's monitor
// tells of a socket, so that no failed handshake is silent. It also tells `Connections` who comes
// and goes.
// Threads: the socket's owner.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "proto/zmq_connections.hpp"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace rubato::proto {

struct HandshakeFailure {
  enum class Why {
    KeyRefused,      // the listener does not accept our key
    OtherMechanism,  // one end has keys, and the other none
    Unproved,        // the listener ended it, time after time: it has not the key that we expect
    Stranger,        // somebody who reached our listener did not get to present a key
  };
  Why why;
  std::string address;  // of the other end; empty for a stranger: ZeroMQ does not say
};

class Handshakes {
 public:
  // Requires: `socket` has no connection yet. Lifetime: all outlive it.
  Handshakes(zmq::context_t& context, zmq::socket_t& socket, Connections& connections);
  ~Handshakes();
  Handshakes(const Handshakes&) = delete;
  Handshakes& operator=(const Handshakes&) = delete;

  // Takes in all that the monitor has told. To be called several times a second: what nobody takes
  // stays in memory.
  void hear(Instant now);
  // Attempts to reach this endpoint that failed since the last handshake there.
  int failed_attempts(const std::string& endpoint) const;
  void forget_attempts(const std::string& endpoint) { retried_.erase(endpoint); }
  // The next failure that is worth a word.
  std::optional<HandshakeFailure> poll();

 private:
  struct Peer {
    bool reached_us = false;
    std::string address;
  };
  struct Event;
  std::optional<HandshakeFailure> take(const Event& event, Instant now);
  std::optional<HandshakeFailure> failed(const Peer& peer, const Event& event);

  zmq::socket_t& socket_;
  Connections& connections_;
  std::unique_ptr<zmq::socket_t> news_;
  std::map<int, Peer> peers_;                 // by descriptor
  std::unique_ptr<Event> failure_;            // of the connection that ends next
  std::map<std::string, int> ended_by_peer_;  // by address: in a row
  std::map<std::string, int> retried_;        // by address: attempts, none of them good
  std::deque<HandshakeFailure> failures_;
};

}  // namespace rubato::proto
