#include "proto/reach.hpp"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "proto/zmq_transport.hpp"

using namespace rubato;
using namespace rubato::proto;
using Outcome = Reach::Outcome;

namespace {

constexpr Duration kShort = Duration::from_ms(300);
constexpr Duration kLong = Duration::from_seconds(20);

// A port of loopback, with a listener that never says a word.
struct MuteListener {
  MuteListener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(fd, 4) == 0);
    REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
  }
  ~MuteListener() { ::close(fd); }
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port = 0;
};

TEST_CASE("reach: a node answers, and goes on as before") {
  ZmqTransport node;
  const auto endpoint = node.listen("tcp://127.0.0.1:*");
  REQUIRE(endpoint);
  const int port = std::stoi(endpoint->substr(endpoint->rfind(':') + 1));
  const Reach found = reach("localhost", port, kLong);
  CHECK(found.outcome == Outcome::Answers);
  CHECK(found.address == "127.0.0.1");
  CHECK_FALSE(found.encrypted);
  const auto received = node.receive(Duration::from_ms(50));
  REQUIRE(received);
  CHECK_FALSE(received->has_value());
}

TEST_CASE(
    "reach: a closed port refuses, another program is mute, a name without address is unknown") {
  int port = 0;
  {
    const MuteListener listener;
    port = listener.port;
    const Reach mute = reach("127.0.0.1", port, kShort);
    CHECK(mute.outcome == Outcome::Mute);
    CHECK(mute.address == "127.0.0.1");
  }
  CHECK(reach("127.0.0.1", port, kLong).outcome == Outcome::Refused);
  const Reach unknown = reach("no-such-box.invalid", port, kLong);
  CHECK(unknown.outcome == Outcome::UnknownName);
  CHECK(unknown.address.empty());
  for (const Outcome outcome :
       {Outcome::Mute, Outcome::Refused, Outcome::TimedOut, Outcome::NoRoute, Outcome::UnknownName})
    CHECK(likely_cause({.outcome = outcome, .address = {}}).size() > 20);
}

}  // namespace
