#include "proto/address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/utf8.hpp"

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

// A name by which a box is known: no address, no interface, and none that every system has for
// loopback.
bool is_box_name(const std::string& host) {
  constexpr std::array kLoopback{"localhost", "localhost4", "localhost6", "ip6-localhost",
                                 "ip6-loopback"};
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  const std::string bare = without_brackets(host);
  if (::inet_pton(AF_INET, bare.c_str(), parsed.data()) == 1 ||
      ::inet_pton(AF_INET6, bare.c_str(), parsed.data()) == 1 ||
      ::if_nametoindex(host.c_str()) != 0)
    return false;
  const std::string first = host.substr(0, host.find('.'));
  return !host.ends_with(".localhost") && std::ranges::none_of(kLoopback, [&](const char* each) {
    return ::strcasecmp(first.c_str(), each) == 0;
  });
}

// The line of /etc/hosts that gives `host` this address: "/etc/hosts, line 2: 127.0.1.1 head".
std::optional<std::string> hosts_line(const std::string& host, const std::string& address) {
  std::ifstream hosts("/etc/hosts");
  int number = 0;
  for (std::string line; std::getline(hosts, line);) {
    ++number;
    std::istringstream text(line.substr(0, line.find('#')));
    std::string shown, word;
    text >> shown;
    bool named = false;
    const bool found = shown == address;
    while (text >> word) {
      named |= ::strcasecmp(word.c_str(), host.c_str()) == 0;
      shown += ' ' + word;
    }
    if (found && named) return fmt::format("/etc/hosts, line {}: {}", number, printable(shown));
  }
  return std::nullopt;
}

}  // namespace

std::vector<OwnAddress> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(first, ::freeifaddrs);
  std::vector<OwnAddress> all;
  for (const ifaddrs* each = first; each; each = each->ifa_next) {
    const int family = each->ifa_addr ? each->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    all.push_back({each->ifa_name, address_from(each->ifa_addr, size, 0),
                   (each->ifa_flags & IFF_UP) != 0, (each->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return all;
}

std::optional<std::string> own_way_down(const Address& address) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(first, ::freeifaddrs);
  std::string down;
  for (const ifaddrs* each = first; each; each = each->ifa_next) {
    if ((each->ifa_flags & IFF_LOOPBACK) == 0) continue;
    if ((each->ifa_flags & IFF_UP) != 0) return std::nullopt;
    down = each->ifa_name;
  }
  const bool own =
      address.loopback() || std::ranges::any_of(own_addresses(), [&](const OwnAddress& each) {
        return each.address.text() == address.text();
      });
  if (!own || down.empty()) return std::nullopt;
  return fmt::format(
      "the loopback interface is down, so no process of this machine reaches another: run "
      "`ip link set dev {} up`",
      down);
}

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

std::vector<Address> resolve_all(const std::string& host, int port) {
  const std::string name = host == "*" ? "0.0.0.0" : without_brackets(host);
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, ::freeaddrinfo);
  std::vector<Address> all;
  for (const addrinfo* each = found; each; each = each->ai_next) {
    const Address address = address_from(each->ai_addr, each->ai_addrlen, port);
    if (std::ranges::find(all, address.text(), &Address::text) == all.end()) all.push_back(address);
  }
  std::ranges::stable_sort(
      all, {}, [](const Address& each) { return std::pair(each.loopback(), each.family()); });
  return all;
}

std::optional<Address> resolve(const std::string& host, int port) {
  const auto all = resolve_all(host, port);
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::optional<Address> resolve_own(const std::string& host, int port) {
  const auto own = own_addresses();
  for (const OwnAddress& each : own)
    if (each.interface == host && each.address.family() == AF_INET)
      return address_from(each.address.get(), each.address.size, port);
  const auto all = resolve_all(host, port);
  for (const Address& each : all)
    if (each.loopback() || std::ranges::any_of(own, [&](const OwnAddress& one) {
          return one.address.text() == each.text();
        }))
      return each;
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::optional<std::string> named_loopback(const std::string& host, const Address& address) {
  if (!address.loopback() || !is_box_name(host)) return std::nullopt;
  return fmt::format("{} stands for {}, which no other box reaches ({})", host, address.text(),
                     hosts_line(host, address.text())
                         .value_or("no line of /etc/hosts says so: the system does, or a name "
                                   "server"));
}

std::optional<Address> peer_address(int descriptor) {
  Address address;
  address.size = sizeof address.storage;
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return std::nullopt;
  return address;
}

}  // namespace rubato::proto
