// proto/zmq_connections.hpp - what each connection that reached the listener makes this node hold,
// and the end of those that make it hold too much.
// ZeroMQ bounds the bytes of a part and the number of whole messages. It bounds neither the parts
// of a message, nor the bytes that wait for a peer, nor the connections of those who say nothing.
// The kernel counts the bytes that came in; what was delivered of them is counted here. The rest
// lies in ZeroMQ. Linux. Units: bytes. Threads: the socket's owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

class Connections {
 public:
  // Bytes of payloads that ZeroMQ still has to send to one peer; released on its I/O thread.
  using Unread = std::shared_ptr<std::atomic<std::size_t>>;
  static constexpr Duration kLookEvery = Duration::from_ms(20);

  // `message_bytes_max`: of a whole message, as it travels. `peers`: as ZmqOptions.
  Connections(std::size_t message_bytes_max, std::size_t peers)
      : message_bytes_max_(message_bytes_max), peers_(peers) {}

  // ZeroMQ accepted a connection, or let go of its descriptor.
  void on_accepted(int descriptor, Instant now);
  void on_ended(int descriptor);

  // Whether this peer's connection is known; else on_peer() is to say it.
  bool knows(PeerId peer) const { return descriptors_.contains(peer); }
  void on_peer(PeerId peer, int descriptor);
  // A whole message of a peer was delivered. `wire_bytes`: all that it took of the connection.
  void on_message(PeerId peer, std::size_t wire_bytes);
  // No message was waiting.
  void on_empty() { empty_ = true; }

  // Null for a peer that is not known, or was cut off.
  Unread unread(PeerId peer) const;

  // Ends the connection of a peer. Returns: its address; empty when it is gone already.
  std::string cut_off(PeerId peer);

  struct Cut {
    enum class Why {
      Endless,  // more bytes than a message may have, and no message
      Largest,  // of unfinished messages that are together too much
      Silent,   // descriptors are few, and it has said nothing
      Crowded,  // descriptors are few, and it came last
    };
    Why why;
    std::string address;
  };
  // Looks at the connections, no more often than kLookEvery. Returns: those that it ended.
  std::vector<Cut> look(Instant now);
  // Somebody holds descriptors or memory that may have to end: the next look is not to be late.
  bool pressed() const { return crowded_ || unfinished_ > 0; }

 private:
  struct Connection {
    std::uint64_t cookie = 0;  // the kernel's name for the socket: descriptors are used again
    Instant since;
    PeerId peer = 0;              // 0: it has said nothing
    std::uint64_t delivered = 0;  // bytes
    // At the last look:
    std::uint64_t taken = 0;  // bytes that ZeroMQ had taken
    std::uint64_t delivered_then = 0;
    std::uint64_t unfinished = 0;  // bytes of a message that is not whole
    bool stalled = false;          // of which none came since the look before
    bool cut = false;
    Unread unread = nullptr;
  };
  using Place = std::map<int, Connection>::iterator;

  bool endless(int descriptor, Connection& connection);
  void set_unfinished(Connection& connection, std::uint64_t bytes);
  void make_room(Instant now, std::vector<Cut>& cuts);
  // Ends the largest unfinished messages, the stalled ones first, until all together are small
  // enough.
  void bound_unfinished(std::vector<Cut>& cuts);
  std::string shut(int descriptor, Connection& connection);

  std::size_t message_bytes_max_;
  std::size_t peers_;
  std::map<int, Connection> connections_;        // by descriptor
  std::unordered_map<PeerId, int> descriptors_;  // of peers
  int looked_at_ = -1;                           // the descriptor that was looked at last
  Instant next_look_;
  bool empty_ = false;            // since the last look
  std::uint64_t messages_ = 0;    // since the last look
  std::uint64_t unfinished_ = 0;  // bytes, of all connections
  bool crowded_ = false;          // at the last look: few descriptors were free
};

}  // namespace rubato::proto
