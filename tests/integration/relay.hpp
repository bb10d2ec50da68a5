// tests/integration/relay.hpp - a TCP port that stands before another one, and keeps all that goes
// through it to there. It understands ZeroMQ's framing (ZMTP 3.1, no encryption), and nothing
// above. Nodes of one machine would go on through shared memory, where nobody can listen. So the
// relay writes another machine's id into what they say of theirs. Threads: one of its own moves
// bytes; the methods may be called from any other.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace rubato::integration {

class Relay {
 public:
  using Bytes = std::vector<std::byte>;
  using Message = std::vector<Bytes>;  // its frames, without ZeroMQ's lengths

  // What one connection has sent so far.
  struct Sent {
    std::size_t bytes = 0;      // all of them
    std::size_t handshake = 0;  // of these, greeting and commands
    std::vector<Message> messages;
  };

  // Takes any free port. Nobody is connected to before set_target().
  Relay();
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int port() const { return port_; }
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(port_); }
  void set_target(int port);
  // By connection, in the order in which they came.
  std::vector<Sent> sent() const;

 private:
  struct Link;
  void run(const std::stop_token& stop);
  void accept();
  // Returns: false once the link is over.
  bool pass_up(Link& link);
  bool pass_down(Link& link);
  // Keeps and forwards what is whole of link.unread.
  bool parse(Link& link);

  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;  // guards target_ and links_[i]->sent
  int target_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace rubato::integration
