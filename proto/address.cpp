#include "proto/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>

#include <array>
#include <cstring>
#include <memory>

namespace rubato::proto {
namespace {

std::string without_brackets(const std::string& host) {
  if (host.size() < 2 || host.front() != '[' || host.back() != ']') return host;
  return host.substr(1, host.size() - 2);
}

void set_port(Address& address, int port) {
  const auto wire = htons(static_cast<std::uint16_t>(port));
  if (address.family() == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = wire;
  else
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = wire;
}

Address address_from(const sockaddr* from, socklen_t size, int port) {
  Address address;
  std::memcpy(&address.storage, from, size);
  address.size = size;
  set_port(address, port);
  return address;
}

}  // namespace

int Address::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string Address::text() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(get(), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  const std::string found = text.data();
  const std::string mapped = "::ffff:";
  return found.starts_with(mapped) ? found.substr(mapped.size()) : found;
}

std::string Address::host() const {
  const std::string found = text();
  return found.find(':') == found.npos ? found : "[" + found + "]";
}

bool Address::loopback() const {
  const std::string found = text();
  return found.starts_with("127.") || found == "::1";
}

std::optional<Address> resolve(const std::string& host, int port) {
  const std::string name = host == "*" ? "0.0.0.0" : without_brackets(host);
  for (const int family : {AF_INET, AF_INET6}) {
    addrinfo wanted{};
    wanted.ai_family = family;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0 || !found) continue;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
    return address_from(found->ai_addr, found->ai_addrlen, port);
  }
  return std::nullopt;
}

std::optional<Address> resolve_own(const std::string& host, int port) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) == 0) {
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(first, ::freeifaddrs);
    for (const ifaddrs* each = first; each; each = each->ifa_next)
      if (each->ifa_addr && each->ifa_addr->sa_family == AF_INET && host == each->ifa_name)
        return address_from(each->ifa_addr, sizeof(sockaddr_in), port);
  }
  return resolve(host, port);
}

std::optional<Address> peer_address(int descriptor) {
  Address address;
  address.size = sizeof address.storage;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return std::nullopt;
  return address;
}

}  // namespace rubato::proto
