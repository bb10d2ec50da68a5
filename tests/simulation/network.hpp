// tests/simulation/network.hpp - the network as ZeroMQ over TCP is.
// - A process listens at its place, and others connect to that place. A connection has a queue at
//   its own end: while it is not up, messages wait there.
// - What is up is a link: two ordered ways. A link has a number of its own, which is the listener's
//   PeerId. A new link to the same listener is another peer.
// - A cut holds messages, as TCP does. It goes on some time after the cut is healed, because TCP
//   and dials try again more and more rarely. A cut of 20 s ends the link, and what was on its way
//   is lost (proto/zmq_transport.cpp has the times). So it is with a reset at once.
// - What a listener sends on a link that has ended is dropped.
// - A loss or a second copy of one message is a fault of its own: TCP has none.
// Threads: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "proto/codec.hpp"
#include "tests/simulation/events.hpp"

namespace rubato::simulation {

using ProcessId = std::uint32_t;
using Place = std::uint32_t;  // a machine with one node: 0 is the scheduler's

struct Parcel {
  proto::Encoded frame;
  ProcessId from = 0;
  Instant sent;
};
using ParcelPtr = std::shared_ptr<const Parcel>;

class Network {
 public:
  // A parcel reaches a process. `peer`: as the receiver knows the sender. `pipe`: the link.
  using Deliver =
      std::function<void(ProcessId to, proto::PeerId peer, std::uint64_t pipe, ParcelPtr parcel)>;
  Network(Events& events, Rng rng, std::size_t places, Deliver deliver);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // A process begins, and listens at its place if `listens`.
  void open(ProcessId process, Place place, bool listens);
  enum class Ended {
    Orderly,   // what it has sent arrives
    Killed,    // what is on its way may be lost
    PowerOff,  // the others do not notice before `off` has passed
  };
  void close(ProcessId process, Ended how, Duration off = {});
  void freeze(ProcessId process, bool frozen) { processes_.at(process).frozen = frozen; }

  // Returns: the listener there, as this process knows it.
  proto::PeerId connect(ProcessId process, Place to);
  void send(ProcessId process, proto::PeerId to, ParcelPtr parcel);

  // Cuts add up: each is healed once.
  void cut(Place from, Place to);
  void heal(Place from, Place to);
  void reset(Place a, Place b);
  // Of each message from one place to another.
  struct Mischief {
    double lose = 0;
    double repeat = 0;
  };
  void set_mischief(Mischief mischief) { mischief_ = mischief; }

 private:
  struct Process {
    Place place = 0;
    bool listens = false;
    bool frozen = false;
    bool ended = false;
  };
  struct Link;
  struct Connection {
    ProcessId client = 0;
    Place to = 0;
    proto::PeerId peer = 0;  // as the client knows the listener
    std::deque<ParcelPtr> queue;
    std::shared_ptr<Link> link;  // null: not up
    int refused = 0;             // dials in a row
    int unanswered = 0;          // the same, of which nothing was heard
  };
  struct Way {
    Instant last;  // arrival
    std::deque<ParcelPtr> held;
  };
  struct Link {
    std::uint64_t number = 0;  // the listener's PeerId
    std::shared_ptr<Connection> connection;
    ProcessId listener = 0;
    bool alive = true;
    bool linger = false;  // what was sent before it ended arrives
    Way up, down;         // to the listener, and back
  };
  struct Path {
    int cuts = 0;
    Instant since;
    std::uint64_t epoch = 0;  // of the cut
  };

  Path& path(Place from, Place to) { return paths_[{from, to}]; }
  bool blocked(Place from, Place to) { return path(from, to).cuts > 0; }
  Place place_of(ProcessId process) const { return processes_.at(process).place; }
  Place from_of(const Link& link, bool up) const;
  Place to_of(const Link& link, bool up) const;
  void dial_after(const std::shared_ptr<Connection>& connection, Duration time);
  void dial(const std::shared_ptr<Connection>& connection);
  void transmit(const std::shared_ptr<Link>& link, bool up, const ParcelPtr& parcel);
  void arrive(const std::shared_ptr<Link>& link, bool up, const ParcelPtr& parcel);
  void hand_over(const std::shared_ptr<Link>& link, bool up, const ParcelPtr& parcel);
  void flush(const std::shared_ptr<Link>& link, bool up);
  void end(const std::shared_ptr<Link>& link);
  std::vector<std::shared_ptr<Link>> links_between(Place a, Place b) const;
  Duration latency();

  Events& events_;
  Rng rng_;
  Deliver deliver_;
  std::map<ProcessId, Process> processes_;
  std::vector<std::optional<ProcessId>> listeners_;  // by place
  std::map<std::pair<ProcessId, proto::PeerId>, std::shared_ptr<Connection>> connections_;
  std::map<std::uint64_t, std::shared_ptr<Link>> links_;  // that are alive
  std::map<std::pair<Place, Place>, Path> paths_;
  Mischief mischief_;
  std::uint64_t numbers_ = 1000;  // of links; a client's peers are below
};

}  // namespace rubato::simulation
