#include "proto/endpoint.hpp"

#include <doctest/doctest.h>

using namespace rubato::proto;

namespace {

TEST_CASE("endpoint: a host and a port, and the same text again") {
  for (const char* text : {"tcp://192.168.1.10:5700", "tcp://box-3:1", "tcp://server_0:1",
                           "tcp://[fe80::1%eth0]:1", "tcp://[fe80::1]:65535"}) {
    CAPTURE(text);
    const auto endpoint = read_endpoint(text);
    REQUIRE(endpoint);
    CHECK(endpoint->text() == text);
    CHECK_FALSE(endpoint->loopback());
  }
  const auto any = read_endpoint("tcp://*:*");
  REQUIRE(any);
  CHECK(any->port == 0);
  CHECK(any->every_address());
  CHECK(read_endpoint("tcp://[::]:1")->every_address());
  for (const char* text : {"tcp://localhost:5700", "tcp://127.0.1.1:5700", "tcp://[::1]:5700"})
    CHECK(read_endpoint(text)->loopback());
}

TEST_CASE("endpoint: any other text is none") {
  for (const char* text : {"", "tcp://", "tcp://:5700", "tcp://box", "tcp://box:", "tcp://box:x",
                           "tcp://box:65536", "tcp://box:-1", "tcp://box:57 00", "ipc://box:5700",
                           "tcp://::1:5700", "tcp://[::1:5700", "tcp://a b:1", "tcp://$(x):1",
                           "tcp://`x`:1", "tcp://a'b:1", "tcp://a\nb:1", "tcp://[;]:1"}) {
    CAPTURE(text);
    CHECK_FALSE(read_endpoint(text));
  }
}

}  // namespace
