// tests/loopback.hpp - plain sockets on loopback, for tests that play a port or a peer by hand.
// What cannot be had fails the test.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace rubato::tests {

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Returns: 0, or -1 as ::connect().
inline int connect_to(int fd, int port) {
  const sockaddr_in address = loopback(port);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// A listener on a free port. Returns: its descriptor, the caller's.
inline int listen_anywhere(int backlog) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(0);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(fd, backlog) == 0);
  return fd;
}

inline int port_of(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

// Whether this machine has [::1].
inline bool has_ipv6() {
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return bound;
}

// Of "tcp://HOST:PORT".
inline int port_of(const std::string& endpoint) {
  return std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
}

// That was free a moment ago.
inline int free_port() {
  const int fd = listen_anywhere(1);
  const int port = port_of(fd);
  ::close(fd);
  return port;
}

inline std::string endpoint_at(int port) {
  return "tcp://127.0.0.1:" + std::to_string(port);
}

}  // namespace rubato::tests
