// proto/memory_transport.hpp - Transport between threads of one process. Messages pass through the
// codec as on a wire; only the payload's bytes are shared. Endpoints are names: "mem://server-0".
// Threads: a MemoryHub is shared by all; a MemoryTransport has one owner, as every Transport.
// Errors: as Transport.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "proto/codec.hpp"
#include "proto/transport.hpp"

namespace rubato::proto {

// Where the transports of one process meet. Lifetime: kept by its transports.
class MemoryHub {
 private:
  friend class MemoryTransport;

  struct Frame {
    PeerId from = 0;
    Encoded encoded;
  };
  struct Inbox {
    std::deque<Frame> frames;
    bool woken = false;
    std::condition_variable arrived;
  };
  // A connection; both ends know it by the same PeerId.
  struct Link {
    std::string endpoint;
    Inbox* client = nullptr;
    Inbox* server = nullptr;      // null while nobody listens
    std::deque<Encoded> backlog;  // sent meanwhile
    std::size_t to_server = 0;    // messages sent and not yet received
    std::size_t to_client = 0;
  };

  void unlink(Inbox& inbox);
  static void deliver(Inbox& inbox, PeerId from, Encoded encoded);

  std::mutex mutex_;  // guards everything below, and every Inbox
  std::condition_variable drained_;
  std::map<std::string, Inbox*> listeners_;
  std::map<PeerId, Link> links_;
  PeerId last_link_ = 0;
};

class MemoryTransport final : public Transport {
 public:
  explicit MemoryTransport(std::shared_ptr<MemoryHub> hub, Duration send_timeout = kSendTimeout);
  ~MemoryTransport() override;

  // `endpoint` is any "mem://NAME". Requires of connect(): not its own listener.
  Result<std::string> listen(const std::string& endpoint) override;
  using Transport::connect;
  Result<PeerId> connect(const std::string& endpoint, const std::string& public_key) override;
  Result<std::size_t> send(PeerId to, const Message& message) override;
  Result<std::optional<Received>> receive(Duration timeout) override;
  void wake() override;

 private:
  std::shared_ptr<MemoryHub> hub_;
  Duration send_timeout_;
  bool listening_ = false;
  MemoryHub::Inbox inbox_;
};

}  // namespace rubato::proto
