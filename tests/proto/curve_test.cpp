// Transports with keys: conformance, who is let in, who is told what, and how a key is revoked.
#include <doctest/doctest.h>

#include <functional>
#include <zmq.hpp>

#include "proto/key_files.hpp"
#include "proto/shm/transport.hpp"
#include "proto/zmq_curve.hpp"
#include "tests/log_of.hpp"
#include "tests/proto/transport_conformance.hpp"
#include "tests/temp_directory.hpp"

namespace rubato::proto {
namespace {

using conformance::expect;
using conformance::kPatience;
using conformance::number_of;
using conformance::numbered;
using conformance::send;
using tests::log_of;

Keys make_keys(Role role, const std::string& name, const std::string& scheduler) {
  auto pair = make_curve_pair();
  const std::string known = role == Role::Scheduler ? pair.public_key : scheduler;
  return {{role, name, std::move(pair.public_key)}, std::move(pair.secret_key), known};
}

std::shared_ptr<const Keys> shared(Keys keys) {
  return std::make_shared<const Keys>(std::move(keys));
}

// All ends have the scheduler's key.
struct CurveFactory {
  std::shared_ptr<const Keys> keys = shared(make_keys(Role::Scheduler, "scheduler", {}));

  std::unique_ptr<Transport> make(Duration send_timeout) const {
    return std::make_unique<ZmqTransport>(
        ZmqOptions{.send_timeout = send_timeout, .linger = Duration{}, .keys = keys});
  }
  static std::string free_endpoint() { return "tcp://127.0.0.1:*"; }
  static std::vector<std::string> bad_endpoints() { return {"", "mem://node-1", "tcp://"}; }
};

struct ShmCurveFactory : CurveFactory {
  std::unique_ptr<Transport> make(Duration send_timeout) const {
    return std::make_unique<ShmTransport>(
        ShmOptions{.send_timeout = send_timeout, .linger = Duration{}, .keys = keys});
  }
};

TEST_CASE("curve: the ZeroMQ transport conforms with keys") {
  conformance::run_all(CurveFactory{});
}

TEST_CASE(
    "curve: the transport of real nodes conforms with keys, while it moves to shared memory") {
  conformance::run_all(ShmCurveFactory{});
}

// A scheduler and its key directory.
struct Head {
  explicit Head(bool shared_memory = false) {
    Keys own = make_keys(Role::Scheduler, "scheduler", {});
    scheduler_key = own.scheduler;
    own.authorized = authorized_directory(place.path()).string();
    transport = open(std::move(own), shared_memory);
  }
  // Who is allowed before needs not wait for the guard's next look.
  void listen() { endpoint = transport->listen("tcp://127.0.0.1:*").value(); }
  static std::unique_ptr<Transport> open(Keys keys, bool shared_memory = false) {
    ShmOptions options{.linger = Duration{}, .keys = shared(std::move(keys))};
    if (!shared_memory) options.host.clear();
    return std::make_unique<ShmTransport>(options);
  }
  Keys key(Role role, const std::string& name) const {
    return make_keys(role, name, scheduler_key);
  }
  void allow(const Keys& keys) const {
    REQUIRE(write_key_files(place.path("boxes"), {keys.own, keys.secret_key}));
    REQUIRE(authorize(place.path(), public_file(place.path("boxes"), keys.own.name)));
  }

  TempDirectory place;
  std::string scheduler_key;
  std::string endpoint;
  std::unique_ptr<Transport> transport;
};

// Runs both ends until `done`, for `patience` at most. Returns: the error of the client, if any.
std::optional<Error> run(Transport& listener, Transport& client,
                         const std::function<bool(std::optional<Received>)>& heard,
                         Duration patience = kPatience) {
  const Instant deadline = steady_now() + patience;
  while (steady_now() < deadline) {
    auto at_listener = listener.receive(Duration::from_ms(20));
    REQUIRE(at_listener);
    if (heard(std::move(*at_listener))) return std::nullopt;
    auto at_client = client.receive(Duration::from_ms(20));
    if (!at_client) return at_client.error();
  }
  return std::nullopt;
}

TEST_CASE("curve: a message says whose key its sender has proved") {
  for (const bool shared_memory : {false, true}) {
    CAPTURE(shared_memory);
    Head head(shared_memory);
    const Keys keys = head.key(Role::Worker, "pi-3");
    head.allow(keys);
    head.listen();
    const auto client = Head::open(keys, shared_memory);
    const PeerId to_head = client->connect(head.endpoint).value();
    send(*client, to_head, numbered(1));
    PeerId to_client = 0;
    for (std::uint64_t n = 1; n <= 50; ++n) {
      const Received received = expect(*head.transport);
      REQUIRE(received.identity);
      CHECK(*received.identity == keys.own);
      CHECK(number_of(received) == n);
      to_client = received.from;
      send(*head.transport, to_client, numbered(n));
      const Received answer = expect(*client);
      CHECK(!answer.identity);  // the connection is to the scheduler's key alone
      (void)client->receive(Duration::from_ms(1));
      (void)head.transport->receive(Duration::from_ms(1));
      if (n < 50) send(*client, to_head, numbered(n + 1));
    }
    CHECK(dynamic_cast<ShmTransport&>(*head.transport).shared_memory(to_client) == shared_memory);
  }
}

TEST_CASE("curve: a key that is not allowed is told so within 5 s, with the remedy") {
  Head head;
  head.listen();
  const auto client = Head::open(head.key(Role::Worker, "pi-3"));
  send(*client, client->connect(head.endpoint).value(), numbered(1));
  std::optional<Error> error;
  const std::string log = log_of([&] {
    error = run(
        *head.transport, *client, [](auto received) { return received.has_value(); },
        Duration::from_ms(5000));
  });
  REQUIRE(error);
  CHECK(error->code == ErrorCode::Refused);
  CHECK(error->message == "the scheduler at " + head.endpoint +
                              " does not accept this key: on its box run `rubato keys allow "
                              "pi-3.pub`");
  CHECK(log.find("refused a node at 127.0.0.1: its key is not in ") != std::string::npos);
}

TEST_CASE("curve: a key that was allowed just now is let in at once") {
  Head head;
  head.listen();
  const Instant until = steady_now() + Duration::from_ms(150);
  while (steady_now() < until) (void)head.transport->receive(Duration::from_ms(10));
  const Keys keys = head.key(Role::Worker, "pi-3");
  head.allow(keys);
  const auto client = Head::open(keys);
  send(*client, client->connect(head.endpoint).value(), numbered(1));
  bool heard = false;
  const auto error = run(*head.transport, *client, [&](auto received) {
    heard = received && received->identity;
    return heard;
  });
  CHECK(!error);
  CHECK(heard);
}

TEST_CASE("curve: another scheduler than that of scheduler.pub is told apart, and hears nothing") {
  Head head, other;
  Keys keys = head.key(Role::Worker, "pi-3");
  other.allow(keys);
  other.listen();
  const auto client = Head::open(keys);
  send(*client, client->connect(other.endpoint).value(), numbered(1));
  const std::string log = log_of([&] {
    const auto error = run(
        *other.transport, *client, [](auto received) { return received.has_value(); },
        Duration::from_ms(3000));
    CHECK(!error);
  });
  CHECK(log.find("the scheduler at " + other.endpoint + " does not prove the key") !=
        std::string::npos);
  CHECK(log.find("refused a connection without a key") != std::string::npos);
  // One line a minute each, however often it tries.
  CHECK(std::count(log.begin(), log.end(), '\n') == 2);
}

TEST_CASE("curve: keys and no keys are told apart on both sides") {
  Head head;
  head.listen();
  ZmqTransport plain({.linger = Duration{}});
  send(plain, plain.connect(head.endpoint).value(), numbered(1));
  const auto asked =
      run(*head.transport, plain, [](auto received) { return received.has_value(); });
  REQUIRE(asked);
  CHECK(asked->code == ErrorCode::Refused);
  CHECK(asked->message.find("asks for a key") != std::string::npos);
  ZmqTransport open({.linger = Duration{}});
  const std::string endpoint = open.listen("tcp://127.0.0.1:*").value();
  const auto client = Head::open(head.key(Role::Worker, "pi-3"));
  send(*client, client->connect(endpoint).value(), numbered(1));
  const auto error = run(open, *client, [](auto received) { return received.has_value(); });
  REQUIRE(error);
  CHECK(error->code == ErrorCode::Refused);
  CHECK(error->message.find("has no keys") != std::string::npos);
}

TEST_CASE("curve: a revoked key is out within 5 s, is told once, and hears nothing more") {
  for (const bool shared_memory : {false, true}) {
    CAPTURE(shared_memory);
    Head head(shared_memory);
    const Keys keys = head.key(Role::Worker, "pi-3");
    const Keys friendly = head.key(Role::Worker, "pi-4");
    head.allow(friendly);
    head.allow(keys);
    head.listen();
    const auto client = Head::open(keys, shared_memory);
    const auto bystander = Head::open(friendly, shared_memory);
    const PeerId to_head = client->connect(head.endpoint).value();
    const PeerId by_head = bystander->connect(head.endpoint).value();
    send(*bystander, by_head, numbered(1));
    const PeerId to_bystander = expect(*head.transport).from;
    send(*client, to_head, numbered(1));
    const PeerId to_client = expect(*head.transport).from;
    for (int i = 0; i < 20; ++i) {  // time to move to shared memory
      send(*head.transport, to_client, numbered(2));
      expect(*client);
      (void)head.transport->receive(Duration::from_ms(2));
    }
    REQUIRE(*revoke(head.place.path(), "pi-3"));
    const Instant revoked_at = steady_now();
    bool told = false;
    const auto error = run(*head.transport, *client, [&](auto received) {
      told = received && received->revoked;
      if (told) CHECK(received->from == to_client);
      return told;
    });
    CHECK(!error);
    REQUIRE(told);
    CHECK(steady_now() - revoked_at < Duration::from_seconds(5));
    CHECK(!head.transport->send(to_client, numbered(3)));
    CHECK(
        head.transport->send(to_client, samples::message(Refusal{RefusalCode::BadMessage, "out"})));
    CHECK(std::holds_alternative<Refusal>(expect(*client).message->body));
    // What it says now is heard by nobody; the other one goes on.
    send(*client, to_head, numbered(4));
    send(*bystander, by_head, numbered(5));
    for (int i = 0; i < 20; ++i) {
      auto received = head.transport->receive(Duration::from_ms(50));
      REQUIRE(received);
      if (!*received) continue;
      CHECK((*received)->from == to_bystander);
      CHECK(number_of(**received) == 5);
    }
    // It does not come back, either.
    const auto again = Head::open(keys, shared_memory);
    send(*again, again->connect(head.endpoint).value(), numbered(6));
    const auto refused =
        run(*head.transport, *again, [](auto received) { return received.has_value(); });
    REQUIRE(refused);
    CHECK(refused->code == ErrorCode::Refused);
  }
}

TEST_CASE("curve: a new key for the same name does not let the old one's connection speak again") {
  Head head;
  const Keys old_key = head.key(Role::Worker, "pi-3");
  const Keys new_key = head.key(Role::Worker, "pi-3");
  head.allow(old_key);
  head.listen();
  const auto client = Head::open(old_key);
  const PeerId to_head = client->connect(head.endpoint).value();
  send(*client, to_head, numbered(1));
  expect(*head.transport);
  REQUIRE(*revoke(head.place.path(), "pi-3"));
  std::filesystem::remove_all(head.place.path("boxes"));
  head.allow(new_key);
  std::size_t revoked = 0, old_messages = 0;
  bool heard_new = false;
  const Instant deadline = steady_now() + kPatience;
  while (!heard_new && steady_now() < deadline) {  // until the guard has looked
    const auto next = Head::open(new_key);
    send(*next, next->connect(head.endpoint).value(), numbered(3));
    (void)run(*head.transport, *next, [&](auto received) {
      if (received && received->revoked) ++revoked;
      heard_new = received && received->identity && *received->identity == new_key.own;
      return heard_new;
    });
  }
  CHECK(heard_new);
  send(*client, to_head, numbered(2));
  for (int i = 0; i < 10; ++i) {
    auto received = head.transport->receive(Duration::from_ms(50));
    REQUIRE(received);
    if (!*received) continue;
    if ((*received)->revoked)
      ++revoked;
    else if (number_of(**received) == 2)
      ++old_messages;
  }
  CHECK(old_messages == 0);
  CHECK(revoked == 1);
}

}  // namespace
}  // namespace rubato::proto
