// tests/proto/transport_conformance.hpp - what every Transport must do. A Factory is a value with
//   make(send_timeout) -> unique_ptr<Transport>   transports that can reach each other
//   free_endpoint()    -> string to listen on, as often as asked
//   bad_endpoints()    -> strings that neither listen() nor connect() accept
//   settle(server, to_client, client, to_server), optional: brings a pair into the state to test
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "proto/codec.hpp"
#include "proto/transport.hpp"
#include "tests/proto/samples.hpp"

namespace rubato::proto::conformance {

// Far above what anything takes; reached only when something is broken.
inline constexpr Duration kPatience = Duration::from_ms(20'000);

// Waits for one message that decodes.
inline Received expect(Transport& transport) {
  auto received = transport.receive(kPatience);
  REQUIRE(received);
  REQUIRE(received->has_value());
  CAPTURE((*received)->message ? "" : (*received)->message.error().message);
  REQUIRE((*received)->message);
  return std::move(**received);
}

inline std::size_t send(Transport& transport, PeerId to, const Message& message) {
  const auto sent = transport.send(to, message);
  REQUIRE(sent);
  return *sent;
}

inline Message numbered(std::uint64_t n) {
  return samples::message(Probe{n});
}

inline std::uint64_t number_of(const Received& received) {
  return std::get<Probe>(received.message->body).sequence;
}

// A listener and one client that it has heard.
template <class Factory>
struct Pair {
  explicit Pair(Factory& factory, Duration send_timeout = kSendTimeout)
      : server(factory.make(send_timeout)), client(factory.make(send_timeout)) {
    const auto bound = server->listen(factory.free_endpoint());
    REQUIRE(bound);
    endpoint = *bound;
    const auto connected = client->connect(endpoint);
    REQUIRE(connected);
    to_server = *connected;
    send(*client, to_server, numbered(0));
    to_client = expect(*server).from;
    if constexpr (requires { factory.settle(*server, to_client, *client, to_server); })
      factory.settle(*server, to_client, *client, to_server);
  }

  std::unique_ptr<Transport> server;
  std::unique_ptr<Transport> client;
  std::string endpoint;
  PeerId to_server = 0;
  PeerId to_client = 0;
};

template <class Factory>
void every_body_both_ways(Factory& factory) {
  Pair pair(factory);
  for (const Message& message : samples::every_message()) {
    CAPTURE(body_name(message.body));
    const std::size_t up = send(*pair.client, pair.to_server, message);
    const Received at_server = expect(*pair.server);
    CHECK(at_server.from == pair.to_client);
    CHECK(at_server.wire_bytes == up);
    CHECK(up == encode(message).wire_bytes());
    CHECK(samples::same(*at_server.message, message));
    const std::size_t down = send(*pair.server, pair.to_client, message);
    const Received at_client = expect(*pair.client);
    CHECK(at_client.from == pair.to_server);
    CHECK(at_client.wire_bytes == down);
    CHECK(samples::same(*at_client.message, message));
  }
}

template <class Factory>
void payloads_of_any_size(Factory& factory) {
  Pair pair(factory);
  // Around the size from which payloads are sent without a copy, and up to the largest allowed.
  for (const std::size_t count : {1U, 2047U, 2048U, 2049U, 262'144U, 4'194'304U}) {
    CAPTURE(count);
    Message message = samples::commit(1, count);
    send(*pair.client, pair.to_server, message);
    const Received received = expect(*pair.server);
    CHECK(samples::same(*received.message, message));
  }
  const auto too_large = pair.client->send(pair.to_server, samples::commit(1, 4'194'305));
  REQUIRE(!too_large);
  CHECK(too_large.error().code == ErrorCode::BadInput);
}

// The sender may let go of its update as soon as send() returns, and gets it back in the end.
template <class Factory>
void payload_is_released(Factory& factory) {
  Pair pair(factory);
  auto values = std::make_shared<const std::vector<float>>(100'000, 1.0F);
  const std::weak_ptr<const std::vector<float>> watched = values;
  send(*pair.client, pair.to_server,
       samples::message(Commit{1, 0, 100'000, 100'000, 1, PayloadCodec::F32},
                        Payload::of(std::move(values))));
  { CHECK(expect(*pair.server).message->payload.size() == 400'000); }
  const Instant deadline = steady_now() + kPatience;
  while (!watched.expired() && steady_now() < deadline) std::this_thread::yield();
  CHECK(watched.expired());
}

template <class Factory>
void order_per_peer(Factory& factory) {
  Pair pair(factory);
  constexpr std::uint64_t kMessages = 2000;
  for (std::uint64_t n = 1; n <= kMessages; ++n) send(*pair.client, pair.to_server, numbered(n));
  for (std::uint64_t n = 1; n <= kMessages; ++n) {
    const Received received = expect(*pair.server);
    REQUIRE(number_of(received) == n);
    send(*pair.server, received.from, numbered(n));
  }
  for (std::uint64_t n = 1; n <= kMessages; ++n) REQUIRE(number_of(expect(*pair.client)) == n);
}

template <class Factory>
void many_clients(Factory& factory) {
  constexpr std::uint64_t kClients = 20;
  constexpr std::uint64_t kEach = 25;
  const auto server = factory.make(kSendTimeout);
  const auto endpoint = server->listen(factory.free_endpoint());
  REQUIRE(endpoint);
  std::vector<std::unique_ptr<Transport>> clients;
  std::vector<PeerId> links;
  for (std::uint64_t c = 0; c < kClients; ++c) {
    clients.push_back(factory.make(kSendTimeout));
    const auto link = clients.back()->connect(*endpoint);
    REQUIRE(link);
    links.push_back(*link);
    for (std::uint64_t n = 0; n < kEach; ++n) send(*clients[c], links[c], numbered(c * kEach + n));
  }
  std::vector<std::uint64_t> heard(kClients);
  std::vector<PeerId> peers(kClients);
  for (std::uint64_t i = 0; i < kClients * kEach; ++i) {
    const Received received = expect(*server);
    const std::uint64_t c = number_of(received) / kEach;
    REQUIRE(number_of(received) % kEach == heard[c]);
    if (heard[c]++ == 0) peers[c] = received.from;
    REQUIRE(peers[c] == received.from);
  }
  for (std::uint64_t c = 0; c < kClients; ++c) send(*server, peers[c], numbered(c));
  for (std::uint64_t c = 0; c < kClients; ++c) CHECK(number_of(expect(*clients[c])) == c);
}

// One node listens and connects at once, as a server does towards workers and the scheduler.
template <class Factory>
void listener_and_connections_in_one(Factory& factory) {
  Pair first(factory);
  Pair second(factory);
  const auto link = first.server->connect(second.endpoint);
  REQUIRE(link);
  CHECK(*link != first.to_client);
  send(*first.server, *link, numbered(5));
  const Received at_second = expect(*second.server);
  CHECK(number_of(at_second) == 5);
  send(*second.server, at_second.from, numbered(6));
  CHECK(expect(*first.server).from == *link);
  send(*first.client, first.to_server, numbered(7));
  CHECK(expect(*first.server).from == first.to_client);
}

template <class Factory>
void timeout_is_honoured(Factory& factory) {
  Pair pair(factory);
  for (const Duration timeout :
       {Duration{0}, Duration::from_ms(-5), Duration{300'000}, Duration::from_ms(60)}) {
    const Instant start = steady_now();
    const auto received = pair.server->receive(timeout);
    const Duration waited = steady_now() - start;
    REQUIRE(received);
    CHECK(!received->has_value());
    CHECK(waited >= timeout);
    CHECK(waited < timeout + Duration::from_ms(5'000));
  }
}

template <class Factory>
void wake_ends_a_wait(Factory& factory) {
  Pair pair(factory);
  const Instant start = steady_now();
  pair.server->wake();  // before the wait
  auto received = pair.server->receive(kPatience);
  REQUIRE(received);
  CHECK(!received->has_value());
  {
    const std::jthread other([&] { pair.server->wake(); });  // before or during it
    received = pair.server->receive(kPatience);
  }
  REQUIRE(received);
  CHECK(!received->has_value());
  CHECK(steady_now() - start < kPatience);
  received = pair.server->receive(Duration::from_ms(20));  // a wake is used up
  CHECK(steady_now() - start >= Duration::from_ms(20));
  send(*pair.client, pair.to_server, numbered(1));
  CHECK(number_of(expect(*pair.server)) == 1);
}

template <class Factory>
void connect_before_listen(Factory& factory) {
  std::string endpoint;
  {
    const auto probe = factory.make(kSendTimeout);
    const auto bound = probe->listen(factory.free_endpoint());
    REQUIRE(bound);
    endpoint = *bound;
  }
  const auto client = factory.make(kSendTimeout);
  const auto link = client->connect(endpoint);
  REQUIRE(link);
  for (std::uint64_t n = 1; n <= 3; ++n) send(*client, *link, numbered(n));
  const auto server = factory.make(kSendTimeout);
  REQUIRE(server->listen(endpoint));
  PeerId back = 0;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    const Received received = expect(*server);
    CHECK(number_of(received) == n);
    back = received.from;
  }
  send(*server, back, numbered(4));
  CHECK(number_of(expect(*client)) == 4);
}

template <class Factory>
void listener_that_comes_back(Factory& factory) {
  Pair pair(factory);
  pair.server.reset();
  pair.server = factory.make(kSendTimeout);
  REQUIRE(pair.server->listen(pair.endpoint));
  const Instant deadline = steady_now() + kPatience;
  std::optional<Received> heard;
  while (!heard && steady_now() < deadline) {  // what was under way may be lost, so repeat
    send(*pair.client, pair.to_server, numbered(1));
    auto received = pair.server->receive(Duration::from_ms(50));
    REQUIRE(received);
    heard = std::move(*received);
  }
  REQUIRE(heard);
  send(*pair.server, heard->from, numbered(2));
  CHECK(number_of(expect(*pair.client)) == 2);
}

template <class Factory>
void peer_that_vanishes(Factory& factory) {
  Pair pair(factory);
  pair.client.reset();
  const Instant deadline = steady_now() + kPatience;
  auto sent = pair.server->send(pair.to_client, numbered(1));
  while (sent && steady_now() < deadline) {
    CHECK(pair.server->receive(Duration::from_ms(5)));
    sent = pair.server->send(pair.to_client, numbered(1));
  }
  REQUIRE(!sent);
  CHECK(sent.error().code == ErrorCode::Io);
  CHECK(!pair.server->send(424'242, numbered(1)));  // nor to one that never was
  CHECK(!pair.server->send(0, numbered(1)));

  const auto next = factory.make(kSendTimeout);  // and others are served
  const auto link = next->connect(pair.endpoint);
  REQUIRE(link);
  send(*next, *link, numbered(2));
  CHECK(number_of(expect(*pair.server)) == 2);
}

// Once `link` takes no more of `chunk`: a payload waits for as long as it may, what has none not at
// all.
inline void only_payloads_wait(Transport& client, PeerId link, const Message& chunk,
                               Duration timeout) {
  std::size_t queued = 0;
  while (queued <= 2 * kQueuedMessagesMax && client.send(link, chunk)) ++queued;
  CHECK(queued + 1 >= kQueuedMessagesMax);  // a pair's first message may still count
  const auto waited = [&](const Message& message) {
    const Instant start = steady_now();
    const auto sent = client.send(link, message);
    REQUIRE(!sent);
    CHECK(sent.error().code == ErrorCode::Io);
    return steady_now() - start;
  };
  const Duration with_payload = waited(chunk);
  CHECK(with_payload >= timeout);
  CHECK(with_payload < timeout + Duration::from_ms(5'000));
  Duration without = waited(numbered(0));
  for (int i = 0; i < 4; ++i) without = std::min(without, waited(numbered(0)));  // on busy cores
  CHECK(without < timeout);
}

// A client's queue for a listener that is not there fills up, then send() gives up.
template <class Factory>
void full_queue_of_a_client(Factory& factory) {
  const Duration timeout = Duration::from_ms(100);
  std::string endpoint;
  {
    Pair pair(factory);
    endpoint = pair.endpoint;
  }
  const auto client = factory.make(timeout);
  const auto link = client->connect(endpoint);
  REQUIRE(link);
  only_payloads_wait(*client, *link, samples::commit(1, 10), timeout);
}

// Nor does a client wait for a listener that is there and does not read.
template <class Factory>
void listener_that_does_not_read(Factory& factory) {
  const Duration timeout = Duration::from_ms(100);
  Pair pair(factory, timeout);
  const Message chunk =
      samples::message(Commit{1, 0, 65'536, 65'536, 1, PayloadCodec::F32}, samples::floats(65'536));
  only_payloads_wait(*pair.client, pair.to_server, chunk, timeout);
}

// A listener waits for nobody: a peer that does not read costs the others nothing.
template <class Factory>
void peer_that_does_not_read(Factory& factory) {
  Pair pair(factory);
  const Message chunk = samples::message(
      Parameters{1, 1, 0, 65'536, 65'536, {}, false, PayloadCodec::F32}, samples::floats(65'536));
  Result<std::size_t> sent{0};
  const Instant start = steady_now();
  for (std::size_t i = 0; sent && i < 2 * kQueuedMessagesMax; ++i)
    sent = pair.server->send(pair.to_client, chunk);
  REQUIRE(!sent);
  CHECK(sent.error().code == ErrorCode::Io);
  CHECK(steady_now() - start < kSendTimeout);

  const auto other = factory.make(kSendTimeout);
  const auto link = other->connect(pair.endpoint);
  REQUIRE(link);
  send(*other, *link, numbered(1));
  send(*pair.server, expect(*pair.server).from, numbered(2));
  CHECK(number_of(expect(*other)) == 2);
}

template <class Factory>
void taken_address(Factory& factory) {
  Pair pair(factory);
  const auto second = factory.make(kSendTimeout);
  const auto taken = second->listen(pair.endpoint);
  REQUIRE(!taken);
  CHECK(taken.error().code == ErrorCode::Io);
  CHECK(taken.error().message.find(pair.endpoint) != std::string::npos);
}

template <class Factory>
void bad_endpoints(Factory& factory) {
  for (const std::string& endpoint : factory.bad_endpoints()) {
    CAPTURE(endpoint);
    const auto transport = factory.make(kSendTimeout);
    const auto listening = transport->listen(endpoint);
    REQUIRE(!listening);
    CHECK(listening.error().code == ErrorCode::BadInput);
    CHECK(listening.error().message.find(endpoint) != std::string::npos);
    const auto connected = transport->connect(endpoint);
    REQUIRE(!connected);
    CHECK(connected.error().code == ErrorCode::BadInput);
    CHECK(connected.error().message.find(endpoint) != std::string::npos);
  }
}

// Call inside a TEST_CASE.
template <class Factory>
void run_all(Factory factory) {
  SUBCASE("every body, both ways") {
    every_body_both_ways(factory);
  }
  SUBCASE("payloads of any size") {
    payloads_of_any_size(factory);
  }
  SUBCASE("a payload is released") {
    payload_is_released(factory);
  }
  SUBCASE("order per peer") {
    order_per_peer(factory);
  }
  SUBCASE("many clients") {
    many_clients(factory);
  }
  SUBCASE("a listener and connections in one") {
    listener_and_connections_in_one(factory);
  }
  SUBCASE("the timeout is honoured") {
    timeout_is_honoured(factory);
  }
  SUBCASE("wake ends a wait") {
    wake_ends_a_wait(factory);
  }
  SUBCASE("connect before listen") {
    connect_before_listen(factory);
  }
  SUBCASE("a listener that comes back") {
    listener_that_comes_back(factory);
  }
  SUBCASE("a peer that vanishes") {
    peer_that_vanishes(factory);
  }
  SUBCASE("a client's queue is full") {
    full_queue_of_a_client(factory);
  }
  SUBCASE("a listener that does not read") {
    listener_that_does_not_read(factory);
  }
  SUBCASE("a peer that does not read") {
    peer_that_does_not_read(factory);
  }
  SUBCASE("a taken address") {
    taken_address(factory);
  }
  SUBCASE("bad endpoints") {
    bad_endpoints(factory);
  }
}

}  // namespace rubato::proto::conformance
