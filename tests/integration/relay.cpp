#include "tests/integration/relay.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace rubato::integration {
namespace {

sockaddr_in address_of(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket that is bound to `port`; 0: any.
int bound_socket(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(port);
  REQUIRE(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return socket;
}

int port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  REQUIRE(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

int connected_socket(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(port);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  close(socket);
  return -1;
}

// Returns: false if the other end takes nothing more.
bool write_all(int socket, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::send(socket, bytes, count, MSG_NOSIGNAL);
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

// Two sockets that are one connection, and where what comes from the first is kept.
struct Pair {
  int client = -1;
  int target = -1;
  std::size_t stream = 0;
};

}  // namespace

int free_port() {
  const int socket = bound_socket(0);
  const int port = port_of(socket);
  close(socket);
  return port;
}

Relay::Relay(int target_port) : listener_(bound_socket(0)), target_port_(target_port) {
  port_ = port_of(listener_);
  REQUIRE(listen(listener_, 16) == 0);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Relay::~Relay() {
  thread_.request_stop();
  thread_.join();
  close(listener_);
}

std::string Relay::endpoint() const {
  return fmt::format("tcp://127.0.0.1:{}", port_);
}

std::vector<std::string> Relay::sent() const {
  const std::lock_guard held(mutex_);
  return sent_;
}

void Relay::run(const std::stop_token& stop) {
  constexpr int kTurnMs = 20;
  std::vector<Pair> pairs;
  std::array<char, 65536> bytes;
  const auto drop = [&](Pair& pair) {
    close(pair.client);
    close(pair.target);
    pair.client = pair.target = -1;
  };
  while (!stop.stop_requested()) {
    std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs) {
      waiting.push_back({pair.client, POLLIN, 0});
      waiting.push_back({pair.target, POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), kTurnMs) <= 0) continue;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      Pair& pair = pairs[i];
      for (const bool from_client : {true, false}) {
        if (pair.client < 0 || waiting[1 + 2 * i + (from_client ? 0 : 1)].revents == 0) continue;
        const ssize_t got =
            read(from_client ? pair.client : pair.target, bytes.data(), bytes.size());
        const auto count = static_cast<std::size_t>(got > 0 ? got : 0);
        if (from_client && count > 0) {
          const std::lock_guard held(mutex_);
          sent_[pair.stream].append(bytes.data(), count);
        }
        if (count == 0 || !write_all(from_client ? pair.target : pair.client, bytes.data(), count))
          drop(pair);
      }
    }
    if (waiting[0].revents == 0) continue;
    Pair pair;
    pair.client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    pair.target = pair.client < 0 ? -1 : connected_socket(target_port_);
    if (pair.target < 0) {  // nobody listens there yet: the node tries again
      close(pair.client);
      continue;
    }
    const std::lock_guard held(mutex_);
    pair.stream = sent_.size();
    sent_.emplace_back();
    pairs.push_back(pair);
  }
  for (Pair& pair : pairs)
    if (pair.client >= 0) drop(pair);
}

}  // namespace rubato::integration
