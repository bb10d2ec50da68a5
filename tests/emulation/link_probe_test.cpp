// The way to another host, measured through a link of known values.
#include "emulation/throttle/link_probe.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <cmath>
#include <thread>

#include "emulation/throttle/relay.hpp"
#include "emulation/throttle/tcp.hpp"

namespace rubato::emulation {
namespace {

bool near(double got, double asked, double part) {
  return std::abs(got - asked) <= part * asked;
}

std::string loopback(int port) {
  return fmt::format("tcp://127.0.0.1:{}", port);
}

TEST_CASE("probe: rates and latency are those of the link, within 10 %") {
  const cluster::LinkModel links[] = {{.latency_seconds = 0.04,
                                       .jitter = 0.3,
                                       .up_bytes_per_second = 1e6,
                                       .down_bytes_per_second = 3e6},
                                      {.up_bytes_per_second = 4e6, .down_bytes_per_second = 2e5}};
  const auto listener = LinkListener::open("tcp://127.0.0.1:*");
  REQUIRE(listener);
  const std::jthread answers([&](const std::stop_token& stop) { listener->run(stop); });
  for (const auto& link : links) {
    Relay relay(link, 1);
    const auto way = relay.way_out(loopback(listener->port()));
    REQUIRE(way);
    bool met = false;
    for (int attempt = 1; attempt <= 20 && !met; ++attempt) {  // another process may be in the way
      const auto got = probe_link(*way, {});
      REQUIRE(got);
      MESSAGE("up " << got->up_bytes_per_second << ", down " << got->down_bytes_per_second
                    << ", latency " << got->latency_seconds << ", jitter " << got->jitter);
      CHECK(got->latency_seconds > 0.9 * link.latency_seconds);  // never sooner
      met = near(got->up_bytes_per_second, link.up_bytes_per_second, 0.1) &&
            near(got->down_bytes_per_second, link.down_bytes_per_second, 0.1) &&
            (link.latency_seconds == 0 ||
             (near(got->latency_seconds, link.latency_seconds, 0.1) &&
              near(got->jitter, link.jitter, 0.3)));  // of a hundred draws
    }
    CHECK(met);
  }
}

TEST_CASE("probe: who is not there, or another program, is one line") {
  auto other = tcp::listen_at("tcp://127.0.0.1:*");
  REQUIRE(other);
  const std::string endpoint = loopback(other->port);
  {
    const std::jthread stranger([&] {
      Descriptor fd;
      while (!fd) fd = Descriptor(::accept4(other->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      (void)::send(fd.get(), "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
      char bytes[64];
      while (::recv(fd.get(), bytes, sizeof bytes, 0) > 0) {
      }
    });
    const auto got = probe_link(endpoint, {});
    REQUIRE_FALSE(got);
    CHECK(got.error().message ==
          endpoint + ": another program listens there, not rubato calibrate --listen");
  }
  other->fd = {};
  const auto got = probe_link(endpoint, {});
  REQUIRE_FALSE(got);
  CHECK(got.error().message == endpoint + ": Connection refused");
  CHECK_FALSE(probe_link("nowhere", {}));
}

TEST_CASE("probe: an interrupt ends both sides") {
  std::stop_source stop;
  stop.request_stop();
  const auto listener = LinkListener::open("tcp://127.0.0.1:*");
  REQUIRE(listener);
  const auto got = probe_link(loopback(listener->port()), stop.get_token());
  REQUIRE_FALSE(got);
  CHECK(got.error().code == ErrorCode::Stopped);
  listener->run(stop.get_token());
}

TEST_CASE("probe: a visitor who asks for nonsense does not stop the next one") {
  const auto listener = LinkListener::open("tcp://127.0.0.1:*");
  REQUIRE(listener);
  const std::jthread answers([&](const std::stop_token& stop) { listener->run(stop); });
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), "rubato-link-1\nU" + std::string(8, '\xff'),
        "rubato-link-1\n?" + std::string(8, '\0'), std::string("ru")}) {
    const auto address = tcp::address_of(loopback(listener->port()));
    REQUIRE(address);
    const Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fd.get(), address->get(), address->size) == 0);
    REQUIRE(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(words.size()));
    ::shutdown(fd.get(), SHUT_WR);
    char bytes[64];
    while (::recv(fd.get(), bytes, sizeof bytes, 0) > 0) {
    }  // until it closes
  }
  CHECK(probe_link(loopback(listener->port()), {}));
}

}  // namespace
}  // namespace rubato::emulation
