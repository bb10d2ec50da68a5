// Two processes' shared-memory links and the signals between them, by hand and on a clock of the
// test's own: agreements that fail half way.
#include "proto/shm/links.hpp"

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <string>

#include "base/shareable.hpp"
#include "tests/log_of.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::proto::shm {
namespace {

constexpr PeerId kPeer = 7;
constexpr const char* kEndpoint = "tcp://10.0.0.1:5700";

// One transport's links; what it signals waits here until the test passes it on, or loses it.
struct End {
  std::deque<Signal> said;
  bool can_say = true;
  Links links{"a-host", [this](PeerId, const Signal& signal) {
                said.push_back(signal);
                return can_say;
              }};

  void hear(End& other, Instant now) {
    for (; !other.said.empty(); other.said.pop_front())
      links.on_signal(kPeer, write_signal(other.said.front()), now);
  }
};

// Both ends work until neither has anything more to do; signals are lost unless passed on before.
void settle(End& connector, End& listener, Instant now) {
  for (int i = 0; i < 4; ++i) {
    listener.links.service(now);
    connector.links.service(now);
  }
}

// Returns: the offers that `connector` makes, hearing its listener every second from `from` on.
std::size_t offers(End& connector, Instant from, int seconds) {
  connector.said.clear();
  for (int i = 0; i < seconds; ++i) {
    connector.links.heard(kPeer, kEndpoint, from + Duration::from_seconds(i));
    connector.links.service(from + Duration::from_seconds(i));
  }
  return connector.said.size();
}

// From the connector's first word of its listener until both have said Switch, which is not passed
// on.
void meet(End& connector, End& listener, Instant now) {
  connector.links.heard(kPeer, kEndpoint, now);
  listener.hear(connector, now);
  connector.hear(listener, now);
  settle(connector, listener, now);
}

void agree(End& connector, End& listener, Instant now) {
  meet(connector, listener, now);
  listener.hear(connector, now);
  connector.hear(listener, now);
}

TEST_CASE("shm links: a Unix socket that cannot be reached: TCP, one line, tried each minute") {
  End end;
  Instant now{1'000'000'000};
  const std::string log = tests::log_of([&] {
    end.links.heard(kPeer, kEndpoint, now);
    for (int minute = 0; minute < 3; ++minute) {
      REQUIRE(end.said.size() == 1);
      const Signal offer = end.said.front();
      REQUIRE(offer.kind == SignalKind::Offer);
      const Signal answer{SignalKind::Answer, offer.token, {}, "nobody-listens-here"};
      end.links.on_signal(kPeer, write_signal(answer), now);
      CHECK(offers(end, now, 60) == 0);
      now = now + kDeclinedInterval;
      end.links.heard(kPeer, kEndpoint, now);
    }
  });
  CHECK(end.links.outgoing(kPeer) == nullptr);
  CHECK_FALSE(end.links.both_ways(kPeer));
  const auto line = log.find("tcp://10.0.0.1:5700: tcp, since ");
  CHECK(line != std::string::npos);
  CHECK(log.find('\n') == log.size() - 1);
}

TEST_CASE("shm links: a listener that declined is asked again when it may have room") {
  End connector, listener;  // which has no door yet, as one that has all its links
  Instant now{1'000'000'000};
  const std::string log = tests::log_of([&] {
    connector.links.heard(kPeer, kEndpoint, now);
    for (int minute = 0; minute < 3; ++minute) {
      agree(connector, listener, now);
      CHECK(offers(connector, now, 60) == 0);
      CHECK(connector.links.outgoing(kPeer) == nullptr);
      now = now + kDeclinedInterval;
      connector.links.heard(kPeer, kEndpoint, now);
    }
  });
  CHECK(log.ends_with("tcp://10.0.0.1:5700: tcp, since it declines shared memory\n"));
  CHECK(log.find('\n') == log.size() - 1);
  listener.links.listen();
  agree(connector, listener, now);
  CHECK(connector.links.both_ways(kPeer));
  CHECK(listener.links.both_ways(kPeer));
}

TEST_CASE(
    "shm links: without the other's Switch a link ends after its time, and a new one begins") {
  End connector, listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  meet(connector, listener, now);
  // Both have said Switch, and both words are lost.
  for (End* end : {&connector, &listener}) {
    REQUIRE(end->said.size() == 1);
    CHECK(end->said.front().kind == SignalKind::Switch);
    end->said.clear();
    CHECK(end->links.outgoing(kPeer) != nullptr);
    CHECK_FALSE(end->links.both_ways(kPeer));
  }
  const Instant late = now + kSwitchTimeout;
  settle(connector, listener, late - Duration{1});
  CHECK(connector.links.outgoing(kPeer) != nullptr);
  CHECK(listener.links.outgoing(kPeer) != nullptr);
  settle(connector, listener, late);
  CHECK(connector.links.outgoing(kPeer) == nullptr);
  CHECK(listener.links.outgoing(kPeer) == nullptr);

  CHECK(offers(connector, late, 50) == 0);  // it would end as this one did
  const Instant later = late + kDeclinedInterval;
  agree(connector, listener, later);
  CHECK(connector.links.both_ways(kPeer));
  CHECK(listener.links.both_ways(kPeer));
}

Encoded lent_update(const std::shared_ptr<Floats>& values) {
  return encode(samples::message(Commit{1, 0, values->size(), values->size(), 1, PayloadCodec::F32},
                                 Payload::of(values)));
}

TEST_CASE("shm links: two ends that both lent and both gave up let go of it all") {
  start_sharing();
  End connector, listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  meet(connector, listener, now);
  std::vector<std::weak_ptr<Floats>> lent;
  for (End* end : {&connector, &listener}) {
    end->said.clear();  // Switch, which is lost: what follows is never read
    const auto values = std::make_shared<Floats>(100'000, 1.0f);
    lent.push_back(values);
    Encoded update = lent_update(values);
    Link* const link = end->links.outgoing(kPeer);
    REQUIRE(link != nullptr);
    REQUIRE(end->links.send(*link, update, kUnreadBytesMin));
  }
  settle(connector, listener, now);
  for (const auto& values : lent) CHECK(!values.expired());
  settle(connector, listener, now + kSwitchTimeout);
  for (const auto& values : lent) CHECK(values.expired());
  const Instant later = now + kSwitchTimeout + kDeclinedInterval;
  agree(connector, listener, later);
  CHECK(connector.links.both_ways(kPeer));
  CHECK(listener.links.both_ways(kPeer));
}

// A process that follows the listener's answer by hand.
struct Guest {
  Descriptor socket;
  Token token;

  void bring(const std::vector<int>& descriptors) const {
    REQUIRE(send_parcel(socket, std::as_bytes(std::span(&token, 1)), descriptors));
  }
};

Guest invited(End& listener, Instant now) {
  const Token token = new_token();
  listener.links.on_signal(kPeer, write_signal({SignalKind::Offer, token, "a-host", {}}), now);
  REQUIRE(listener.said.size() == 1);
  const Signal answer = listener.said.front();
  listener.said.clear();
  REQUIRE(answer.kind == SignalKind::Answer);
  return {*connect_locally(answer.address), token};
}

void receive_guest(End& listener, Instant now) {
  for (int i = 0; i < 2; ++i) listener.links.service(now);  // opens the door, then reads
}

TEST_CASE("shm links: who brings anything else than memory is not let in, and ends nobody") {
  start_sharing();
  End listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  const Descriptor memory = *make_memory_file(kRegionBytes);
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  ::close(pipe[0]);  // who writes there is sent SIGPIPE
  const Descriptor broken(pipe[1]), counter(::eventfd(0, EFD_CLOEXEC));
  for (const int other : {broken.get(), counter.get()}) {
    for (const auto& brought : {std::vector{other}, std::vector{memory.get(), other}}) {
      const Guest guest = invited(listener, now);
      guest.bring(brought);
      const std::string log = tests::log_of([&] { receive_guest(listener, now); });
      CHECK(log.find("was not let in") != std::string::npos);
      CHECK(listener.links.outgoing(kPeer) == nullptr);
      CHECK(!receive_parcel(guest.socket));
    }
  }
  const Guest guest = invited(listener, now);
  guest.bring({memory.get()});
  receive_guest(listener, now);
  CHECK(listener.links.outgoing(kPeer) != nullptr);
}

TEST_CASE("shm links: a listener that drops the connection: TCP, one line, tried each minute") {
  End connector;
  const Doorstep door = *listen_locally();
  Instant now{1'000'000'000};
  const std::string log = tests::log_of([&] {
    connector.links.heard(kPeer, kEndpoint, now);
    for (int minute = 0; minute < 3; ++minute) {
      REQUIRE(connector.said.size() == 1);
      const Signal answer{SignalKind::Answer, connector.said.front().token, {}, door.address};
      connector.links.on_signal(kPeer, write_signal(answer), now);
      CHECK(*accept_locally(door.socket));
      CHECK(offers(connector, now, 60) == 0);
      now = now + kDeclinedInterval;
      connector.links.heard(kPeer, kEndpoint, now);
    }
  });
  CHECK(log.ends_with("tcp://10.0.0.1:5700: tcp, since the other process closed its end\n"));
  CHECK(log.find('\n') == log.size() - 1);
}

TEST_CASE(
    "shm links: a link that ends is one line at each end, but for a connector that has ended") {
  const Instant now{1'000'000'000};
  const std::string process = "process " + std::to_string(::getpid()) + ": tcp, since ";
  const std::string late = "both ends did not switch to shared memory in time\n";
  End listener;
  listener.links.listen();
  {
    End connector;
    meet(connector, listener, now);
    const std::string log = tests::log_of([&] {
      connector.links.service(now + kSwitchTimeout);
      for (int i = 0; i < 3; ++i) listener.links.service(now);
    });
    CHECK(log.find("tcp://10.0.0.1:5700: tcp, since " + late) != std::string::npos);
    CHECK(log.ends_with(process + "the other process says goodbye\n"));
    CHECK(std::ranges::count(log, '\n') == 2);
  }
  auto connector = std::make_unique<End>();
  agree(*connector, listener, now);
  REQUIRE(listener.links.both_ways(kPeer));
  const std::string log = tests::log_of([&] {
    connector.reset();
    for (int i = 0; i < 3; ++i) listener.links.service(now);
  });
  CHECK(log.empty());
  CHECK_FALSE(listener.links.both_ways(kPeer));
}

TEST_CASE("shm links: an answer that nobody follows, and a guest that is silent, are forgotten") {
  End listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  const Guest guest = invited(listener, now);
  listener.links.service(now);
  const Instant late = now + kDueTimeout;
  const std::string log = tests::log_of([&] {
    listener.links.service(late - Duration{1});
    CHECK(!listener.links.idle());
    listener.links.service(late);
  });
  CHECK(listener.links.idle());
  CHECK(!receive_parcel(guest.socket));
  CHECK(log.ends_with("process " + std::to_string(::getpid()) +
                      " said nothing: not let in to shared memory\n"));
}

TEST_CASE("shm links: an answer that cannot be sent expects nobody") {
  End listener;
  listener.links.listen();
  listener.can_say = false;
  const Signal offer{SignalKind::Offer, new_token(), "a-host", {}};
  listener.links.on_signal(kPeer, write_signal(offer), Instant{1'000'000'000});
  CHECK(listener.said.front().kind == SignalKind::Answer);
  CHECK(listener.links.idle());
}

TEST_CASE("shm links: who is answered has a place, and one offer too many is declined") {
  End listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  const auto answer_to = [&](PeerId peer, Instant at) {
    const Signal offer{SignalKind::Offer, new_token(), "a-host", {}};
    listener.links.on_signal(peer, write_signal(offer), at);
    const Signal said = listener.said.back();
    CHECK(said.token == offer.token);
    return said;
  };
  const Signal first = answer_to(1, now);
  for (PeerId peer = 2; peer <= kLinksMax; ++peer)
    CHECK(answer_to(peer, now).kind == SignalKind::Answer);
  CHECK(answer_to(kLinksMax + 1, now).kind == SignalKind::Decline);
  CHECK(answer_to(kLinksMax, now).kind == SignalKind::Answer);  // again: in its own place
  const Guest guest{*connect_locally(first.address), first.token};
  guest.bring({make_memory_file(kRegionBytes)->get()});
  receive_guest(listener, now);
  CHECK(listener.links.outgoing(1) != nullptr);
  CHECK(answer_to(kLinksMax + 1, now).kind == SignalKind::Decline);
  listener.links.service(now + kDueTimeout);
  CHECK(answer_to(kLinksMax + 1, now + kDueTimeout).kind == SignalKind::Answer);
}

TEST_CASE("shm links: idle links do not keep others out, and one that is used stays") {
  End listener;
  listener.links.listen();
  Instant now{1'000'000'000};
  std::vector<Guest> guests;
  const auto join = [&](PeerId peer) {
    const Signal offer{SignalKind::Offer, new_token(), "a-host", {}};
    listener.links.on_signal(peer, write_signal(offer), now);
    const Signal said = listener.said.back();
    if (said.kind != SignalKind::Answer) return false;
    guests.push_back({*connect_locally(said.address), said.token});
    guests.back().bring({make_memory_file(kRegionBytes)->get()});
    receive_guest(listener, now);
    listener.links.on_signal(peer, write_signal({SignalKind::Switch, offer.token, {}, {}}), now);
    return listener.links.both_ways(peer);
  };
  for (PeerId peer = 1; peer <= kLinksMax; ++peer) REQUIRE(join(peer));
  CHECK_FALSE(join(100));
  now = now + kIdleMax - Duration{1};
  Encoded encoded = encode(samples::message(Heartbeat{}));
  REQUIRE(listener.links.send(*listener.links.outgoing(1), encoded, kUnreadBytesMin));
  listener.links.service(now);
  CHECK_FALSE(join(100));
  now = now + Duration{1};
  for (PeerId peer = 100; peer < 100 + kLinksMax - 1; ++peer) CHECK(join(peer));
  CHECK(listener.links.both_ways(1));
  CHECK_FALSE(listener.links.both_ways(2));
  CHECK_FALSE(join(200));  // all others are fresh
}

TEST_CASE("shm links: who asks and does not read loses its link, with what waits for it") {
  start_sharing();
  for (const bool lent : {false, true}) {
    CAPTURE(lent);
    End connector, listener;
    listener.links.listen();
    const Instant now{1'000'000'000};
    agree(connector, listener, now);
    Link* const link = listener.links.outgoing(kPeer);
    REQUIRE(link != nullptr);
    const auto values = std::make_shared<const std::vector<float>>(100'000, 1.0f);
    const auto update = [&] {
      if (lent) return lent_update(std::make_shared<Floats>(100'000, 1.0f));
      return encode(samples::message(Commit{.count = values->size(), .total = values->size()},
                                     Payload::of(values)));
    };
    constexpr std::size_t kMost = 40'000'000;  // of 100 messages
    int sent = 0;
    for (Encoded next = update(); listener.links.send(*link, next, kMost); next = update()) ++sent;
    CHECK(sent > 95);
    CHECK(sent < 130);  // and some that lie in slots
    CHECK(link->closed);
    CHECK(link->queue.empty());
    CHECK(listener.links.outgoing(kPeer) == nullptr);
  }
}

TEST_CASE("shm links: a goodbye waits for room behind bells that nobody has heard") {
  start_sharing();
  End connector, listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  agree(connector, listener, now);
  Encoded update = lent_update(std::make_shared<Floats>(100'000, 1.0f));
  REQUIRE(listener.links.send(*listener.links.outgoing(kPeer), update, kUnreadBytesMin));
  const std::optional<Received> held = connector.links.receive();  // keeps the socket open
  REQUIRE((held && held->message));
  Link* const link = connector.links.outgoing(kPeer);
  REQUIRE(link != nullptr);
  for (int i = 0; i < 100'000; ++i) ring_bell(*link->socket);
  Channel(link->mapping, 1).header().tail.store(1);
  const std::optional<Received> wrong = connector.links.receive();
  REQUIRE(wrong);
  CHECK(!wrong->message);
  CHECK(connector.links.outgoing(kPeer) == nullptr);
  for (int i = 0; i < 100'000 && listener.links.outgoing(kPeer); ++i) {
    listener.links.service(now);
    connector.links.service(now);
  }
  CHECK(listener.links.outgoing(kPeer) == nullptr);
}

TEST_CASE("shm links: an end that is over waits for who still reads there") {
  start_sharing();
  auto connector = std::make_unique<End>();
  End listener;
  listener.links.listen();
  const Instant now{1'000'000'000};
  agree(*connector, listener, now);
  const auto values = std::make_shared<Floats>(100'000, 1.0f);
  Encoded update = lent_update(values);
  REQUIRE(listener.links.send(*listener.links.outgoing(kPeer), update, kUnreadBytesMin));
  update = {};
  std::optional<Received> received = connector->links.receive();
  REQUIRE(received);
  REQUIRE(received->message);
  connector.reset();
  listener.links.service(now);
  CHECK(values.use_count() == 2);  // and the loan
  received.reset();
  listener.links.service(now);
  CHECK(values.use_count() == 1);
}

}  // namespace
}  // namespace rubato::proto::shm
