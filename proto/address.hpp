// proto/address.hpp - addresses of TCP endpoints: those that names stand for, and those of sockets.
// IPv4 and IPv6. Blocks as long as the system's resolver does. Threads: any.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace rubato::proto {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  int port() const;
  std::string text() const;  // "10.0.0.2", "fd00::2"; an IPv4 address in an IPv6 one as itself
  std::string host() const;  // of an endpoint: "10.0.0.2", "[fd00::2]"
  bool loopback() const;
};

// `host`: a name, an address, or one of IPv6 in brackets; "*" is every IPv4 address. Of a name's
// addresses the first of IPv4, else of IPv6. Returns: nothing for a name that has none.
std::optional<Address> resolve(const std::string& host, int port);

// resolve() for an endpoint of this machine. `host` may also be an interface, which stands for its
// address.
std::optional<Address> resolve_own(const std::string& host, int port);

// The other end of a connected socket.
std::optional<Address> peer_address(int descriptor);

}  // namespace rubato::proto
