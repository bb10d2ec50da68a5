// The relay between real sockets of loopback. Its times have a lower bound only: machines are busy.
#include "emulation/throttle/relay.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "emulation/throttle/link_check.hpp"
#include "emulation/throttle/tcp.hpp"
#include "emulation/throttle/traced_link.hpp"

namespace rubato::emulation {
namespace {

constexpr Duration kPatience = Duration::from_seconds(20);
constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

void await(const Descriptor& fd, short events) {
  pollfd wait{fd.get(), events, 0};
  REQUIRE(::poll(&wait, 1, static_cast<int>(kPatience.ms())) == 1);
}

Descriptor connect_to(const std::string& endpoint) {
  Descriptor fd = tcp::make_socket();
  const auto address = tcp::address_of(endpoint);
  REQUIRE(address);
  (void)::connect(fd.get(), address->get(), address->size);
  await(fd, POLLOUT);
  return fd;
}

Descriptor accept(const tcp::Listener& listener) {
  await(listener.fd, POLLIN);
  return Descriptor(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

// Sends as much as goes without waiting. Returns: how much.
std::size_t push(const Descriptor& fd, std::span<const std::byte> bytes) {
  const auto sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

// Reads what comes until `bytes` or the end. Returns: nothing where the connection broke.
std::optional<std::vector<std::byte>> pull(const Descriptor& fd, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  std::size_t have = 0;
  while (have < bytes) {
    await(fd, POLLIN);
    const auto got = ::recv(fd.get(), all.data() + have, bytes - have, 0);
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  all.resize(have);
  return all;
}

// A connection that goes out through a relay.
struct Pair {
  explicit Pair(const cluster::LinkModel& link) : relay(link, 1) {
    auto listening = tcp::listen_at(kAnyPort);
    REQUIRE(listening);
    listener = std::move(*listening);
    target = fmt::format("tcp://127.0.0.1:{}", listener.port);
    const auto way = relay.way_out(target);
    REQUIRE(way);
    CHECK(relay.way_out(target) == *way);  // one way to each endpoint
    near = connect_to(*way);
    far = accept(listener);
  }

  Relay relay;
  tcp::Listener listener;
  std::string target;
  Descriptor near, far;
};

std::vector<std::byte> noise(std::size_t bytes) {
  Rng rng(7);
  std::vector<std::byte> all(bytes);
  for (auto& each : all) each = static_cast<std::byte>(rng.below(256));
  return all;
}

// Both ways at once.
void exchange(const Descriptor& a, const Descriptor& b, std::span<const std::byte> bytes) {
  std::size_t sent[2] = {0, 0};
  std::vector<std::byte> got[2];
  const Descriptor* ends[2] = {&a, &b};
  const Instant deadline = steady_now() + kPatience;
  std::vector<std::byte> block(64 * 1024);
  while (got[0].size() < bytes.size() || got[1].size() < bytes.size()) {
    REQUIRE(steady_now() < deadline);
    for (int i = 0; i < 2; ++i) {
      sent[i] += push(*ends[i], bytes.subspan(sent[i]));
      const auto count = ::recv(ends[i]->get(), block.data(), block.size(), 0);
      if (count > 0) got[i].insert(got[i].end(), block.begin(), block.begin() + count);
    }
    pollfd waits[2] = {{a.get(), POLLIN, 0}, {b.get(), POLLIN, 0}};
    (void)::poll(waits, 2, 1);
  }
  for (const auto& each : got) CHECK(std::ranges::equal(each, bytes));
}

TEST_CASE("a relay carries bytes intact, both ways at once, out and in") {
  const auto bytes = noise(3'000'000);
  Pair out({.latency_seconds = 0.002, .up_bytes_per_second = 2e7, .down_bytes_per_second = 4e7});
  exchange(out.near, out.far, bytes);

  Relay relay({.latency_seconds = 0.002, .jitter = 0.5}, 1);
  auto inside = tcp::listen_at(kAnyPort);
  REQUIRE(inside);
  const auto way = relay.way_in(kAnyPort, fmt::format("tcp://127.0.0.1:{}", inside->port));
  REQUIRE(way);
  const Descriptor near = connect_to(*way);
  const Descriptor far = accept(*inside);
  exchange(near, far, bytes);
}

TEST_CASE("bytes take at least the time that the link takes for them") {
  Pair pair({.latency_seconds = 0.05, .up_bytes_per_second = 1e6, .down_bytes_per_second = 0});
  const auto bytes = noise(200'000);
  const Instant began = steady_now();
  REQUIRE(push(pair.near, bytes) == bytes.size());
  REQUIRE(pull(pair.far, bytes.size()) == bytes);
  CHECK((steady_now() - began).seconds() > 0.249);
  const Instant answered = steady_now();
  REQUIRE(push(pair.far, std::span(bytes).first(100)) == 100);
  REQUIRE(pull(pair.near, 100)->size() == 100);
  CHECK((steady_now() - answered).seconds() > 0.0499);
}

TEST_CASE("the end of one direction passes, and the other one goes on") {
  Pair pair({.latency_seconds = 0.01, .up_bytes_per_second = 1e7, .down_bytes_per_second = 1e7});
  const auto bytes = noise(100'000);
  REQUIRE(push(pair.near, bytes) == bytes.size());
  REQUIRE(::shutdown(pair.near.get(), SHUT_WR) == 0);
  CHECK(pull(pair.far, bytes.size() + 1) == bytes);  // all, then the end
  REQUIRE(push(pair.far, bytes) == bytes.size());
  CHECK(pull(pair.near, bytes.size()) == bytes);
  pair.far = {};
  CHECK(pull(pair.near, 1)->empty());
}

TEST_CASE("the death of one end reaches the other") {
  Pair pair({.latency_seconds = 0.01});
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(pair.near.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  pair.near = {};  // resets the connection
  const auto rest = pull(pair.far, 1);
  CHECK((!rest || rest->empty()));

  Pair other({.latency_seconds = 0.01});
  other.far = {};
  const auto left = pull(other.near, 1);
  CHECK((!left || left->empty()));
}

TEST_CASE("a target that nobody listens at disconnects, and is tried again by the next") {
  Relay relay({.latency_seconds = 0.001}, 1);
  auto listener = tcp::listen_at(kAnyPort);
  REQUIRE(listener);
  const int port = listener->port;
  listener->fd = {};
  const std::string target = fmt::format("tcp://127.0.0.1:{}", port);
  const auto way = relay.way_out(target);
  REQUIRE(way);
  const Descriptor lost = connect_to(*way);
  const auto nothing = pull(lost, 1);
  CHECK((!nothing || nothing->empty()));
  auto again = tcp::listen_at(target);
  REQUIRE(again);
  const Descriptor near = connect_to(*way);
  const Descriptor far = accept(*again);
  CHECK(push(near, noise(10)) == 10);
  CHECK(pull(far, 10) == noise(10));
}

TEST_CASE("a sender whose receiver does not read is held back") {
  Pair pair({.latency_seconds = 0.01, .up_bytes_per_second = 1e9, .down_bytes_per_second = 1e9});
  const auto block = noise(64 * 1024);
  std::size_t sent = 0;
  // Until nothing more went for a while.
  for (Instant last = steady_now(); steady_now() - last < Duration::from_ms(500);) {
    const std::size_t more = push(pair.near, block);
    sent += more;
    if (more > 0) last = steady_now();
    pollfd wait{pair.near.get(), POLLOUT, 0};
    (void)::poll(&wait, 1, 50);
  }
  // Buffers of four sockets and of the link.
  CHECK(sent < 24'000'000);
  std::vector<std::byte> rest = *pull(pair.far, sent);
  CHECK(rest.size() == sent);
}

TEST_CASE("nothing passes during an outage, nor over a partition") {
  Pair pair({.up_bytes_per_second = 1e7});
  const auto pass = [&] {
    const Instant began = steady_now();
    REQUIRE(push(pair.near, noise(10)) == 10);
    REQUIRE(pull(pair.far, 10) == noise(10));
    return (steady_now() - began).seconds();
  };
  pass();
  const Instant cut = steady_now();
  pair.relay.cut(Duration::from_ms(300), Duration::from_ms(300));
  pass();
  CHECK((steady_now() - cut).seconds() > 0.299);
  const Instant parted = steady_now();
  pair.relay.cut(pair.target, Duration::from_ms(300));
  pass();
  CHECK((steady_now() - parted).seconds() > 0.299);
}

TEST_CASE("a link follows a trace: an outage first, then a rate") {
  Pair pair({});
  cluster::NodeTrace trace;
  trace.up = cluster::ValueTrace({{{}, 0}, {Duration::from_ms(300), 1e6}});
  TracedLink link(pair.relay, {}, {.trace = std::make_shared<const cluster::NodeTrace>(trace)});
  const Instant began = steady_now();
  link.follow(began);
  const auto bytes = noise(100'000);
  REQUIRE(push(pair.far, noise(10)) == 10);  // the other way is free
  REQUIRE(pull(pair.near, 10) == noise(10));
  REQUIRE(push(pair.near, bytes) == bytes.size());
  REQUIRE(pull(pair.far, bytes.size()) == bytes);
  CHECK((steady_now() - began).seconds() > 0.399);  // 0.3 s, and 0.1 s for the bytes
}

TEST_CASE("a link plays its outages") {
  Pair pair({});
  TracedLink link(pair.relay, {}, {.cuts = {{.begins = {}, .ends = Duration::from_ms(300)}}});
  const Instant began = steady_now();
  link.follow(began);
  REQUIRE(push(pair.near, noise(10)) == 10);
  REQUIRE(pull(pair.far, 10) == noise(10));
  CHECK((steady_now() - began).seconds() > 0.299);
}

TEST_CASE("a link plays partitions of nodes once it is told their place") {
  Pair pair({});
  constexpr proto::NodeId kServer{proto::Role::Server, 1};
  const Duration ends = Duration::from_seconds(60);
  TracedLink link(pair.relay, {}, {.cuts = {{.begins = {}, .ends = ends, .other = kServer}}});
  const Instant began = steady_now();
  link.follow(began);
  REQUIRE(push(pair.near, noise(10)) == 10);
  REQUIRE(pull(pair.far, 10) == noise(10));
  link.locate(kServer, pair.target);
  // Its thread needs a moment to hear it.
  bool cut = false;
  while (!cut && steady_now() - began < ends) {
    REQUIRE(push(pair.near, noise(10)) == 10);
    pollfd wait{pair.far.get(), POLLIN, 0};
    cut = ::poll(&wait, 1, 300) == 0;
    if (!cut) REQUIRE(pull(pair.far, 10) == noise(10));
  }
  CHECK(cut);
}

TEST_CASE("the last words of a process arrive though it ends") {
  auto listener = tcp::listen_at(kAnyPort);
  REQUIRE(listener);
  Descriptor far;
  {
    Relay relay({.latency_seconds = 0.2}, 1);
    const auto way = relay.way_out(fmt::format("tcp://127.0.0.1:{}", listener->port));
    REQUIRE(way);
    const Descriptor near = connect_to(*way);
    far = accept(*listener);
    REQUIRE(push(near, noise(1000)) == 1000);
  }
  CHECK(pull(far, 1001) == noise(1000));
}

TEST_CASE("an address that is taken, or no address, is an error") {
  Relay relay({.latency_seconds = 0.001}, 1);
  const auto listener = tcp::listen_at(kAnyPort);
  const std::string taken = fmt::format("tcp://127.0.0.1:{}", listener->port);
  const auto way = relay.way_in(taken, "tcp://127.0.0.1:1");
  REQUIRE(!way);
  CHECK(way.error().message.starts_with("cannot listen on " + taken));
  CHECK(!relay.way_in("tcp:5700", "tcp://127.0.0.1:1"));
}

TEST_CASE("a link is judged by what was measured") {
  const cluster::LinkModel link{
      .latency_seconds = 0.1, .up_bytes_per_second = 1e6, .down_bytes_per_second = 0};
  CHECK(delivers(link, {.up_bytes_per_second = 1.04e6, .latency_seconds = 0.104}));
  CHECK_FALSE(delivers(link, {.up_bytes_per_second = 1.06e6, .latency_seconds = 0.1}));
  CHECK_FALSE(delivers(link, {.up_bytes_per_second = 0.94e6, .latency_seconds = 0.1}));
  CHECK_FALSE(delivers(link, {.up_bytes_per_second = 1e6, .latency_seconds = 0.106}));
  CHECK(to_text(link, {.up_bytes_per_second = 1.04e6, .latency_seconds = 0.104}) ==
        "up 8 Mb/s asked, 8.32 got; down unlimited; latency 100 ms asked, 104 got");
}

TEST_CASE("a link that misses is measured again, and refused in the end") {
  const cluster::LinkModel link{.up_bytes_per_second = 1e6};
  int measured = 0;
  const auto text = check_link(link, [&]() -> Result<LinkCheck> {
    return LinkCheck{.up_bytes_per_second = ++measured < 3 ? 0.9e6 : 1.01e6};
  });
  REQUIRE(text);
  CHECK(measured == 3);
  CHECK(*text == "up 8 Mb/s asked, 8.08 got; down unlimited; latency 0 ms asked, 0 got");
  measured = 0;
  const auto refused = check_link(link, [&]() -> Result<LinkCheck> {
    ++measured;
    return LinkCheck{.up_bytes_per_second = 0.9e6};
  });
  REQUIRE(!refused);
  CHECK(measured == 6);
  CHECK(refused.error().code == ErrorCode::BadInput);
  CHECK(refused.error().message.starts_with("up 8 Mb/s asked, 7.2 got; "));
}

}  // namespace
}  // namespace rubato::emulation
