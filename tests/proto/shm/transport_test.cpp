// The transport of real nodes: conformance before, during and after the move to shared memory, what
// makes it stay with TCP, and what is left when a process dies.
#include "proto/shm/transport.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/loopback.hpp"
#include "tests/proto/transport_conformance.hpp"

namespace rubato::proto {
namespace {

using conformance::expect;
using conformance::kPatience;
using conformance::number_of;
using conformance::numbered;
using conformance::send;

// Lets both ends run until messages go through shared memory both ways.
void settle(ShmTransport& server, PeerId to_client, ShmTransport& client, PeerId to_server) {
  send(server, to_client, numbered(0));  // the listener is heard: the connector makes its offer
  REQUIRE(number_of(expect(client)) == 0);
  const Instant deadline = steady_now() + kPatience;
  while (!(server.shared_memory(to_client) && client.shared_memory(to_server))) {
    REQUIRE(steady_now() < deadline);
    for (ShmTransport* transport : {&server, &client}) {
      const auto received = transport->receive(Duration::from_ms(1));
      REQUIRE(received);
      REQUIRE(!received->has_value());
    }
  }
}

struct ShmFactory {
  static std::unique_ptr<ShmTransport> make(Duration send_timeout) {
    return std::make_unique<ShmTransport>(ShmOptions{send_timeout, Duration{}, shm::host_id()});
  }
  static std::string free_endpoint() { return "tcp://127.0.0.1:*"; }
  static std::vector<std::string> bad_endpoints() {
    return {"", "mem://node-1", "127.0.0.1:5", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x"};
  }
};

// Every pair of the suite has moved to shared memory before the suite looks at it.
struct SettledFactory : ShmFactory {
  static void settle(Transport& server, PeerId to_client, Transport& client, PeerId to_server) {
    proto::settle(dynamic_cast<ShmTransport&>(server), to_client,
                  dynamic_cast<ShmTransport&>(client), to_server);
  }
};

using SettledPair = conformance::Pair<SettledFactory>;

bool uses_shared_memory(const Transport& transport, PeerId peer) {
  return dynamic_cast<const ShmTransport&>(transport).shared_memory(peer);
}

TEST_CASE("shm transport: conformance while the conversation moves") {
  conformance::run_all(ShmFactory{});
}

TEST_CASE("shm transport: conformance in shared memory") {
  conformance::run_all(SettledFactory{});
}

TEST_CASE("shm transport: order is kept across the switch, both ways") {
  ShmFactory factory;
  conformance::Pair pair(factory);
  std::uint64_t up = 0, heard = 0, down = 0, answered = 0;
  const Instant deadline = steady_now() + kPatience;
  std::uint64_t after = 0;
  // Messages are always under way in both directions, small and large ones.
  while (after < 200) {
    REQUIRE(steady_now() < deadline);
    for (int burst = 0; burst < 5; ++burst) {
      const std::uint64_t n = ++up;
      send(*pair.client, pair.to_server,
           n % 3 == 0 ? samples::commit(n, 100'000) : samples::commit(n, 10));
    }
    for (int reads = 0; reads < 5; ++reads) {
      const Received received = expect(*pair.server);
      CHECK(received.from == pair.to_client);
      const auto& commit = std::get<Commit>(received.message->body);
      REQUIRE(commit.sequence == ++heard);
      send(*pair.server, pair.to_client, numbered(++down));
    }
    for (int reads = 0; reads < 3; ++reads) REQUIRE(number_of(expect(*pair.client)) == ++answered);
    if (uses_shared_memory(*pair.server, pair.to_client) &&
        uses_shared_memory(*pair.client, pair.to_server))
      ++after;
  }
}

TEST_CASE("shm transport: another host id stays with TCP, and no id asks nobody") {
  for (const std::string host : {"another-boot/1", ""}) {
    CAPTURE(host);
    ShmTransport server({kSendTimeout, Duration{}, shm::host_id()});
    ShmTransport client({kSendTimeout, Duration{}, host});
    const auto endpoint = server.listen(ShmFactory::free_endpoint());
    REQUIRE(endpoint);
    const auto link = client.connect(*endpoint);
    REQUIRE(link);
    for (std::uint64_t n = 1; n <= 100; ++n) {
      send(client, *link, numbered(n));
      const Received received = expect(server);
      REQUIRE(number_of(received) == n);
      send(server, received.from, numbered(n));
      REQUIRE(number_of(expect(client)) == n);
      CHECK(!client.shared_memory(*link));
      CHECK(!server.shared_memory(received.from));
    }
  }
}

// After a few of these round trips both ends wait awake, now and then interrupted by what makes
// them fall asleep again.
TEST_CASE("shm transport: a conversation of small messages, with TCP and wake() in between") {
  SettledFactory factory;
  SettledPair pair(factory);
  ShmTransport remote({kSendTimeout, Duration{}, "another-boot/1"});
  const auto link = remote.connect(pair.endpoint);
  REQUIRE(link);
  const std::jthread echo([&server = *pair.server] {
    for (std::uint64_t n = 1; n != 0;) {
      const auto received = server.receive(kPatience);
      if (!received || !*received) break;
      n = number_of(**received);
      if (!server.send((*received)->from, numbered(n))) break;
    }
  });
  for (std::uint64_t n = 1; n <= 2000; ++n) {
    send(*pair.client, pair.to_server, numbered(n));
    REQUIRE(number_of(expect(*pair.client)) == n);
    if (n % 50 != 0) continue;
    pair.client->wake();
    const auto woken = pair.client->receive(kPatience);
    REQUIRE(woken);
    CHECK(!woken->has_value());
    for (std::uint64_t m = n; m < n + n / 50; ++m) {  // up to a conversation of its own
      send(remote, *link, numbered(m));
      REQUIRE(number_of(expect(remote)) == m);
    }
  }
  send(*pair.client, pair.to_server, numbered(0));
  CHECK(number_of(expect(*pair.client)) == 0);
  CHECK(uses_shared_memory(*pair.client, pair.to_server));
}

TEST_CASE("shm transport: payloads that are held for ever block nobody") {
  SettledFactory factory;
  SettledPair pair(factory);
  std::vector<Message> held;
  for (std::uint64_t n = 1; n <= 4 * shm::kSlots; ++n) {
    send(*pair.client, pair.to_server, samples::commit(n, 262'144));
    held.push_back(std::move(*expect(*pair.server).message));
  }
  for (std::uint64_t n = 1; n <= held.size(); ++n)
    CHECK(samples::same(held[n - 1], samples::commit(n, 262'144)));
}

TEST_CASE("shm transport: last words are read after the process is gone") {
  SettledFactory factory;
  SettledPair pair(factory);
  for (std::uint64_t n = 1; n <= 5; ++n) send(*pair.client, pair.to_server, numbered(n));
  pair.client.reset();
  for (std::uint64_t n = 1; n <= 5; ++n) REQUIRE(number_of(expect(*pair.server)) == n);
}

TEST_CASE("shm transport: a held payload outlives its link") {
  SettledFactory factory;
  SettledPair pair(factory);
  const Message sent = samples::commit(1, 50'000);
  send(*pair.client, pair.to_server, sent);
  const Received received = expect(*pair.server);
  pair.client.reset();
  pair.server.reset();
  CHECK(samples::same(*received.message, sent));
}

Message lent_commit(std::uint64_t sequence, const std::shared_ptr<Floats>& values) {
  return samples::message(Commit{sequence, 0, values->size(), values->size(), 1, PayloadCodec::F32},
                          Payload::of(values));
}

TEST_CASE("shm transport: an update is read where it lies, and given back") {
  SettledFactory factory;
  SettledPair pair(factory);
  auto values = std::make_shared<Floats>(100'000, 1.0f);
  const std::weak_ptr<Floats> watched = values;
  send(*pair.client, pair.to_server, lent_commit(1, values));
  std::vector<float> scratch;
  {
    const Received received = expect(*pair.server);
    values->back() = 2.0f;  // as nobody may: the reader sees it, so nothing was copied
    CHECK(received.message->payload.floats(scratch).back() == 2.0f);
    values.reset();
    REQUIRE(pair.client->receive(Duration{}));
    CHECK(!watched.expired());
  }
  REQUIRE(pair.client->receive(Duration{}));
  CHECK(watched.expired());
}

TEST_CASE("shm transport: what was lent stays as it was, though its link and its owner are gone") {
  SettledFactory factory;
  SettledPair pair(factory);
  for (std::uint64_t n = 1; n <= 3; ++n)
    send(*pair.client, pair.to_server,
         lent_commit(n, std::make_shared<Floats>(100'000, static_cast<float>(n))));
  const Received first = expect(*pair.server);
  pair.client.reset();
  const Floats others[3] = {Floats(100'000, 9.0f), Floats(100'000, 9.0f), Floats(100'000, 9.0f)};
  std::vector<float> scratch;
  CHECK(std::ranges::count(first.message->payload.floats(scratch), 1.0f) == 100'000);
  for (const float n : {2.0f, 3.0f}) {
    const Received next = expect(*pair.server);
    CHECK(std::ranges::count(next.message->payload.floats(scratch), n) == 100'000);
  }
}

// --- crashes -------------------------------------------------------------------------------------

// Another process, killed at the latest by the destructor. It is made before any transport, since
// who forks beside other threads may copy a lock that one of them holds, and runs when told to.
class Child {
 public:
  explicit Child(void (*run)(int)) {
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::close(pipe[1]);
      int argument = 0;
      if (::read(pipe[0], &argument, sizeof(argument)) == sizeof(argument)) run(argument);
      ::_exit(1);
    }
    ::close(pipe[0]);
    start_ = pipe[1];
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void start(int argument) {
    REQUIRE(::write(start_, &argument, sizeof(argument)) == sizeof(argument));
    ::close(start_);
    start_ = -1;
  }
  void kill() {
    if (pid_ <= 0) return;
    if (start_ >= 0) ::close(start_);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int start_ = -1;  // write its argument here, once
};

// Connects to the port and repeats whatever it hears, until killed. It speaks first.
void echo(int port) {
  ShmTransport transport;
  const auto link = transport.connect(tests::endpoint_at(port));
  if (!link || !transport.send(*link, numbered(0))) return;
  while (true) {
    const auto received = transport.receive(kPatience);
    if (!received || !*received || !(*received)->message) return;
    if (!transport.send(*link, *(*received)->message)) return;
  }
}

// Listens on the port and repeats whatever it hears.
void listening_echo(int port) {
  ShmTransport transport;
  if (!transport.listen(tests::endpoint_at(port))) return;
  while (true) {
    const auto received = transport.receive(kPatience);
    if (!received || !*received || !(*received)->message) return;
    (void)transport.send((*received)->from, *(*received)->message);
  }
}

std::size_t entries(const char* directory) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(directory), {}));
}

// Round trips until they go through shared memory, and then some with a payload.
void converse(ShmTransport& transport, PeerId peer) {
  const Instant deadline = steady_now() + kPatience;
  for (std::uint64_t n = 1, after = 0; after < 20; ++n) {
    REQUIRE(steady_now() < deadline);
    if (transport.shared_memory(peer)) ++after;
    const Message message = samples::commit(n, 70'000);
    send(transport, peer, message);
    Received back = expect(transport);
    while (back.from != peer) back = expect(transport);  // last words of one that was killed
    REQUIRE(samples::same(*back.message, message));
  }
}

TEST_CASE("shm transport: a connector is killed, nothing is left and the next one is served") {
  const std::size_t shm_files = entries("/dev/shm");
  Child lives[] = {Child(echo), Child(echo), Child(echo)};
  ShmTransport server({kSendTimeout, Duration{}, shm::host_id()});
  const auto endpoint = server.listen(ShmFactory::free_endpoint());
  REQUIRE(endpoint);
  std::size_t descriptors = 0;
  for (Child& child : lives) {
    CAPTURE(&child - lives);
    child.start(tests::port_of(*endpoint));
    Received first = expect(server);
    while (!std::holds_alternative<Probe>(first.message->body)) first = expect(server);  // echoes
    const PeerId peer = first.from;
    converse(server, peer);
    auto values = std::make_shared<Floats>(262'144, 1.0f);
    const std::weak_ptr<Floats> lent = values;
    send(server, peer, lent_commit(1, values));
    values.reset();
    for (std::uint64_t n = 1; n <= 2 * shm::kSlots; ++n)  // killed with both directions full
      send(server, peer, samples::commit(n, 262'144));
    child.kill();
    const Instant deadline = steady_now() + kPatience;
    while (server.send(peer, numbered(1))) {
      REQUIRE(steady_now() < deadline);
      REQUIRE(server.receive(Duration::from_ms(5)));
    }
    CHECK(!server.shared_memory(peer));
    CHECK(lent.expired());
    if (&child == lives) descriptors = entries("/proc/self/fd") - 2;  // the others' pipes
  }
  // ZeroMQ closes the last connection on a thread of its own.
  const Instant deadline = steady_now() + kPatience;
  while (entries("/proc/self/fd") > descriptors) {
    REQUIRE(steady_now() < deadline);
    REQUIRE(server.receive(Duration::from_ms(5)));
  }
  CHECK(entries("/dev/shm") == shm_files);
}

TEST_CASE("shm transport: a listener is killed, its successor is found and shares memory again") {
  Child first(listening_echo);
  Child second(listening_echo);
  int port = 0;
  {
    ShmTransport probe;
    const auto endpoint = probe.listen(ShmFactory::free_endpoint());
    REQUIRE(endpoint);
    port = tests::port_of(*endpoint);
  }
  first.start(port);
  ShmTransport client({kSendTimeout, Duration{}, shm::host_id()});
  const auto link = client.connect(tests::endpoint_at(port));
  REQUIRE(link);
  converse(client, *link);
  first.kill();
  second.start(port);
  const Instant deadline = steady_now() + kPatience;
  while (true) {  // what was under way is lost, so repeat
    REQUIRE(steady_now() < deadline);
    send(client, *link, numbered(1));
    const auto received = client.receive(Duration::from_ms(50));
    REQUIRE(received);
    if (*received) break;
  }
  while (true) {  // answers to the repeated ones
    const auto received = client.receive(Duration::from_ms(200));
    REQUIRE(received);
    if (!*received) break;
  }
  converse(client, *link);
}

}  // namespace
}  // namespace rubato::proto
