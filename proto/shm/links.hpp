// proto/shm/links.hpp - the shared-memory links of one transport: agreeing on them, the memory in
// both directions, and noticing at once (the Unix socket closes) that the other process is gone.
// A link that fails is dropped, and its peer is reached over TCP again.
// Threads: one owner. Errors: never fatal; a link that cannot be made, and one that ends, is
// one log line; a connector that ends costs its listener none.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/log_limit.hpp"
#include "proto/shm/channel.hpp"
#include "proto/shm/signal.hpp"
#include "proto/transport.hpp"

namespace rubato::proto::shm {

// Links of one listener: each takes one descriptor and up to kRegionBytes of memory.
inline constexpr std::size_t kLinksMax = 64;
// One that has moved nothing for so long makes room when there are no others: its ends go on over
// TCP.
inline constexpr Duration kIdleMax = Duration::from_ms(20'000);
// Until who comes to the door has said who it is, and from then until both directions have
// switched; else it is dropped.
inline constexpr Duration kSwitchTimeout = Duration::from_ms(10'000);
// A listener that says nothing to an offer is asked again, no sooner, when it is heard again.
inline constexpr Duration kOfferInterval = Duration::from_ms(1'000);
// One that declined, or with which no link came about, is asked again no sooner than this: it may
// have room by then.
inline constexpr Duration kDeclinedInterval = Duration::from_ms(60'000);
// From the answer to an offer until its connector comes, which may be evaluating meanwhile.
inline constexpr Duration kDueTimeout = kDeclinedInterval;

struct Link {
  PeerId peer = 0;
  std::string name;  // for people: the listener's endpoint, or the connector's process
  Token token;
  // After the handshake it carries bells, and a goodbye at last. Its end: the peer reads nothing of
  // ours any more. Who holds payloads in place keeps it open, link or not.
  std::shared_ptr<const Descriptor> socket;
  std::shared_ptr<Mapping> mapping;
  std::optional<ChannelWriter> out;
  std::optional<ChannelReader> in;
  std::deque<Outgoing> queue;  // waiting for room, at most kQueuedMessagesMax
  std::size_t queued = 0;      // bytes in it
  Instant deadline;            // for both switches
  Instant used;                // when service() last saw that something had moved
  bool moved = false;          // since then
  bool listening = false;      // the peer reached our listener
  bool out_open = false;       // our Switch was sent
  bool in_open = false;        // the peer's Switch came
  bool closed = false;         // nothing is sent any more; what the peer wrote is still read
  bool told = false;           // our goodbye was sent
  bool gone = false;           // the socket has ended

  bool agreed() const { return in_open && out_open; }
};

class Links {
 public:
  using SendSignal = std::function<bool(PeerId, const Signal&)>;

  Links(std::string host, SendSignal send_signal);

  // There is no link and nobody is expected for one: there is nothing to service.
  bool idle() const { return links_.empty() && due_.empty() && guests_.empty(); }
  // Readable when service() has something to do.
  int descriptor() const { return epoll_.get(); }
  // From now on others may come to us.
  void listen();
  // A message of outgoing connection `to` came over TCP: the listener is there, so make an offer.
  void heard(PeerId to, const std::string& endpoint, Instant now);
  void on_signal(PeerId from, std::span<const std::byte> bytes, Instant now);
  // Whoever waits at the sockets, queues that have room again, links that are over.
  void service(Instant now);
  // The link through which messages to this peer go now, or null: TCP.
  Link* outgoing(PeerId to);
  bool both_ways(PeerId peer) const;
  // Takes the message, or returns false when the link's queue is full. The link ends
  // when more than `unread_max` bytes wait for its connector, in the queue and lent.
  bool send(Link& link, Encoded& encoded, std::size_t unread_max);
  bool unsent() const;
  std::optional<Received> receive();
  // Asks all writers to ring. Returns whether something is there already. awake() ends it.
  bool sleep();
  void awake();

 private:
  struct Offer {
    PeerId to = 0;
    Token token;
    Instant at;
    std::string endpoint;
    bool declined = false;  // the last time; it is logged once
  };

  // An offer that we answered.
  struct Due {
    Token token;
    PeerId peer = 0;
    Instant deadline;
  };
  // Came to our door and has not said who it is.
  struct Guest {
    Descriptor socket;
    Instant deadline;
  };

  Link* find(PeerId peer) const;
  Offer& offer_to(PeerId to);
  void answer(PeerId from, const Signal& offer, Instant now);
  void knock(PeerId listener, const Signal& answer, Instant now);
  void open_door(Instant now);
  void drop_overdue(Instant now);
  void on_event(int fd, Instant now);
  void on_guest(std::size_t index, Instant now);
  Result<void> welcome(Descriptor socket, const Parcel& parcel, Instant now);
  void on_socket(Link& link);
  Result<void> accept_reply(Link& link, const Parcel& parcel);
  void open_out(Link& link);
  static void decline(Offer& offer, const std::string& why);
  // Of those that others made. Ends one that is idle if there is none.
  bool find_room(Instant now);
  void end(Link& link, const std::string& why);
  void close(Link& link);
  static void say_goodbye(Link& link);
  Result<void> watch(const Descriptor& socket) const;
  void unwatch(const Descriptor& socket) const;
  void drop_ended();
  static void flush(Link& link);
  std::optional<Received> receive_from(Link& link);

  std::string host_;
  SendSignal send_signal_;
  Descriptor epoll_;
  Doorstep door_;
  std::vector<Offer> offers_;  // ours, one a connection
  std::vector<Due> due_;
  std::deque<Guest> guests_;
  std::vector<std::unique_ptr<Link>> links_;
  std::size_t next_ = 0;  // the link to read first
  LogLimit said_;         // of links that end, by line
  Instant serviced_;      // the last service()
};

}  // namespace rubato::proto::shm
