// proto/address.hpp - addresses of TCP endpoints: those that names stand for, and those of sockets.
// IPv4 and IPv6. Blocks as long as the system's resolver does. Threads: any.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

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

// An address of an interface of this machine. IPv4 and IPv6.
struct OwnAddress {
  std::string interface;
  Address address;
  bool up = false;
  bool loopback = false;  // the interface is
};
std::vector<OwnAddress> own_addresses();

// A remedy if no process of this machine reaches another, by loopback or by an own address.
// Nothing: they do, or `address` is another machine's.
std::optional<std::string> own_way_down(const Address& address);

// `host`: a name, an address, or one of IPv6 in brackets; "*" is every IPv4 address. Returns: all
// addresses of a name, IPv4 first, and those of loopback last: Debian writes "127.0.1.1 head" into
// /etc/hosts of head. Empty: the name has none.
std::vector<Address> resolve_all(const std::string& host, int port);

// The first of resolve_all().
std::optional<Address> resolve(const std::string& host, int port);

// The first of resolve_all() that this machine has, else the first. `host` may also be an
// interface, which stands for its address.
std::optional<Address> resolve_own(const std::string& host, int port);

// "head stands for 127.0.1.1, which no other box reaches (/etc/hosts, line 2: 127.0.1.1 head)",
// where `address` is the one of a box's name, and is loopback. Nothing: it is not; or `host` is an
// address, an interface, or a name of loopback such as localhost.
std::optional<std::string> named_loopback(const std::string& host, const Address& address);

// The other end of a connected socket.
std::optional<Address> peer_address(int descriptor);

}  // namespace rubato::proto
