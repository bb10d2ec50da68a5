#include "proto/reach.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

#include <string>

#include "proto/zmq_transport.hpp"
#include "tests/loopback.hpp"

using namespace rubato;
using namespace rubato::proto;
using Outcome = Reach::Outcome;

namespace {

constexpr Duration kShort = Duration::from_ms(300);
constexpr Duration kLong = Duration::from_seconds(20);

// A port of loopback, with a listener that never says a word.
struct MuteListener {
  ~MuteListener() { ::close(fd); }
  int fd = tests::listen_anywhere(4);
  int port = tests::port_of(fd);
};

TEST_CASE("reach: a node answers, and goes on as before") {
  ZmqTransport node;
  const auto endpoint = node.listen("tcp://127.0.0.1:*");
  REQUIRE(endpoint);
  const int port = tests::port_of(*endpoint);
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
