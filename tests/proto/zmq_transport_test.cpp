// The ZeroMQ transport: conformance, and what bad peers send: each bad message is one error and the
// next good one still arrives.
#include "proto/zmq_transport.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <zmq.hpp>

#include "tests/loopback.hpp"
#include "tests/proto/transport_conformance.hpp"

namespace rubato::proto {
namespace {

using conformance::expect;
using conformance::number_of;
using conformance::numbered;
using namespace std::string_view_literals;

struct ZmqFactory {
  static std::unique_ptr<Transport> make(Duration send_timeout) {
    return std::make_unique<ZmqTransport>(ZmqOptions{send_timeout, Duration{}});
  }
  static std::string free_endpoint() { return "tcp://127.0.0.1:*"; }
  static std::vector<std::string> bad_endpoints() {
    return {"", "mem://node-1", "127.0.0.1:5", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:x"};
  }
};

TEST_CASE("the ZeroMQ transport conforms") {
  conformance::run_all(ZmqFactory{});
}

using Parts = std::vector<std::vector<std::byte>>;

Parts parts_of(const Message& message) {
  const Encoded encoded = encode(message);
  const auto bytes = encoded.payload.bytes();
  return {{encoded.control.begin(), encoded.control.end()}, {bytes.begin(), bytes.end()}};
}

void send_parts(zmq::socket_t& socket, const Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto flags = i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    REQUIRE(socket.send(zmq::buffer(parts[i]), flags));
  }
}

Error expect_error(Transport& transport) {
  auto received = transport.receive(conformance::kPatience);
  REQUIRE(received);
  REQUIRE(received->has_value());
  REQUIRE(!(*received)->message);
  CHECK((*received)->wire_bytes > 0);
  return (*received)->message.error();
}

struct BadMessage {
  const char* what;
  Parts parts;
  ErrorCode code;
  const char* words;
};

std::vector<BadMessage> bad_messages() {
  const Parts good = parts_of(samples::commit(1, 5'000));
  const auto damaged = [&good](auto damage) {
    Parts parts = good;
    damage(parts);
    return parts;
  };
  Commit huge{1, 0, std::uint64_t{1} << 50, std::uint64_t{1} << 50, 1, PayloadCodec::F32};
  return {
      {"garbage", {std::vector(100, std::byte{0xa5}), {}}, ErrorCode::Corrupt, "not a Rubato"},
      {"empty parts", {{}, {}}, ErrorCode::Corrupt, "shorter than its prefix"},
      {"one part", {good[0]}, ErrorCode::Corrupt, "1 parts instead of 2"},
      {"three parts", {good[0], good[1], good[1]}, ErrorCode::Corrupt, "3 parts instead of 2"},
      {"a thousand parts", Parts(1000, good[0]), ErrorCode::Corrupt, "1000 parts instead of 2"},
      {"truncated control", damaged([](Parts& p) { p[0].resize(p[0].size() / 2); }),
       ErrorCode::Corrupt, "fails its checksum"},
      {"truncated payload", damaged([](Parts& p) { p[1].resize(100); }), ErrorCode::Corrupt,
       "payload of 100 bytes where 20000 are announced"},
      {"flipped bit in the payload", damaged([](Parts& p) { p[1][7'000] ^= std::byte{16}; }),
       ErrorCode::Corrupt, "payload of 20000 bytes fails its checksum"},
      {"wrong version", damaged([](Parts& p) { p[0][4] = std::byte{10}; }), ErrorCode::Refused,
       "version 10, this side version 9"},
      {"huge claim", parts_of(samples::message(huge)), ErrorCode::Corrupt, "payload of 0 bytes"},
      {"huge control",
       {std::vector(kControlBytesMax + 1, std::byte{1}), {}},
       ErrorCode::Corrupt,
       "the limit is"},
  };
}

TEST_CASE("a bad message from a client is one error, the next good one arrives") {
  ZmqTransport server;
  const auto endpoint = server.listen("tcp://127.0.0.1:*");
  REQUIRE(endpoint);
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::dealer);
  client.set(zmq::sockopt::linger, 0);
  client.connect(*endpoint);
  std::uint64_t n = 0;
  for (const BadMessage& bad : bad_messages()) {
    CAPTURE(bad.what);
    send_parts(client, bad.parts);
    send_parts(client, parts_of(numbered(++n)));
    const Error error = expect_error(server);
    CHECK(error.code == bad.code);
    CAPTURE(error.message);
    CHECK(error.message.find(bad.words) != std::string::npos);
    CHECK(number_of(expect(server)) == n);
  }
}

TEST_CASE("a bad message from a server is one error, the next good one arrives") {
  zmq::context_t context;
  zmq::socket_t server(context, zmq::socket_type::router);
  server.set(zmq::sockopt::linger, 0);
  server.bind("tcp://127.0.0.1:*");
  ZmqTransport client;
  const auto link = client.connect(server.get(zmq::sockopt::last_endpoint));
  REQUIRE(link);
  REQUIRE(client.send(*link, numbered(0)));
  zmq::message_t id;
  REQUIRE(server.recv(id));
  std::uint64_t n = 0;
  for (const BadMessage& bad : bad_messages()) {
    CAPTURE(bad.what);
    for (const Parts& parts : {bad.parts, parts_of(numbered(++n))}) {
      REQUIRE(server.send(zmq::buffer(id.data(), id.size()), zmq::send_flags::sndmore));
      send_parts(server, parts);
    }
    CHECK(expect_error(client).code == bad.code);
    const Received good = expect(client);
    CHECK(good.from == *link);
    CHECK(number_of(good) == n);
  }
}

TEST_CASE("a peer that chooses its own routing id is an error without a way back") {
  ZmqTransport server;
  const auto endpoint = server.listen("tcp://127.0.0.1:*");
  REQUIRE(endpoint);
  zmq::context_t context;
  zmq::socket_t client(context, zmq::socket_type::dealer);
  client.set(zmq::sockopt::linger, 0);
  client.set(zmq::sockopt::routing_id, "intruder");
  client.connect(*endpoint);
  send_parts(client, parts_of(numbered(1)));
  CHECK(expect_error(server).message.find("routing id") != std::string::npos);
}

// A plain TCP connection to `endpoint`.
class TcpClient {
 public:
  explicit TcpClient(const std::string& endpoint) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(tests::connect_to(fd_, tests::port_of(endpoint)) == 0);
    const timeval patience{conformance::kPatience.ms() / 1000, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~TcpClient() { ::close(fd_); }
  TcpClient(const TcpClient&) = delete;
  TcpClient& operator=(const TcpClient&) = delete;

  void send(std::string_view bytes) const {
    REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // Reads until the other side closes the connection.
  bool closed_by_peer() const {
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    do {
      got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
  }

 private:
  int fd_;
};

TEST_CASE("strangers on the port are disconnected and nobody else notices") {
  ZmqFactory factory;
  conformance::Pair pair(factory);
  // ZMTP 3.0, NULL mechanism (rfc.zeromq.org/spec/23).
  const std::string greeting =
      std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL"sv) + std::string(48, '\0');
  const std::string ready("\4\x1c\5READY\vSocket-Type\0\0\0\6DEALER"sv);
  SUBCASE("not ZeroMQ at all") {
    const TcpClient stranger(pair.endpoint);
    stranger.send("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
    stranger.send(std::string(100, '\0'));
    CHECK(stranger.closed_by_peer());
  }
  SUBCASE("a frame that claims 2^60 bytes") {
    const TcpClient stranger(pair.endpoint);
    stranger.send(greeting + ready);
    stranger.send("\3\x10\0\0\0\0\0\0\0"sv);
    CHECK(stranger.closed_by_peer());
  }
  SUBCASE("a frame one byte above the limit") {
    const TcpClient stranger(pair.endpoint);
    stranger.send(greeting + ready);
    stranger.send("\2\0\0\0\0\1\0\0\x41"sv);
    CHECK(stranger.closed_by_peer());
  }
  conformance::send(*pair.client, pair.to_server, numbered(8));
  const Received received = expect(*pair.server);
  CHECK(received.from == pair.to_client);
  CHECK(number_of(received) == 8);
}

TEST_CASE("a wake before the first use ends the first wait, and once only") {
  ZmqTransport transport;
  transport.wake();
  transport.wake();
  const Instant began = steady_now();
  const auto woken = transport.receive(Duration::from_seconds(60));
  REQUIRE(woken);
  CHECK_FALSE(woken->has_value());
  CHECK(steady_now() - began < Duration::from_seconds(30));
  const auto nothing = transport.receive(Duration::from_ms(5));
  REQUIRE(nothing);
  CHECK_FALSE(nothing->has_value());
  CHECK(steady_now() - began >= Duration::from_ms(5));
}

TEST_CASE("peers take turns: a flood of one does not starve another") {
  ZmqTransport transport;
  const auto endpoint = transport.listen("tcp://127.0.0.1:*");
  REQUIRE(endpoint);
  zmq::context_t context;
  std::array<zmq::socket_t, 2> peers;
  for (zmq::socket_t& peer : peers) {
    peer = zmq::socket_t(context, zmq::socket_type::dealer);
    peer.set(zmq::sockopt::linger, 0);
    peer.set(zmq::sockopt::sndhwm, 1);
    peer.set(zmq::sockopt::sndbuf, 65'536);
  }
  peers[0].bind("tcp://127.0.0.1:*");
  const auto link = transport.connect(peers[0].get(zmq::sockopt::last_endpoint));
  REQUIRE(link);
  peers[1].connect(*endpoint);
  for (zmq::socket_t& peer : peers) {  // both are connected
    send_parts(peer, parts_of(samples::commit(1, 1)));
    expect(transport);
  }
  // 15 MiB from each, more than TCP buffers, so both have a queue in front of the transport.
  const Parts chunk = parts_of(samples::commit(1, 65'536));
  for (int i = 0; i < 60; ++i)
    for (zmq::socket_t& peer : peers) send_parts(peer, chunk);
  // ZeroMQ looks for peers that it does not read from yet at every hundredth part, and then takes a
  // message of each in turn.
  int from_link = 0;
  for (int i = 0; i < 60; ++i) from_link += expect(transport).from == *link ? 1 : 0;
  CHECK(from_link >= 8);
  CHECK(from_link <= 52);
}

}  // namespace
}  // namespace rubato::proto
