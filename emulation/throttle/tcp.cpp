#include "emulation/throttle/tcp.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "proto/endpoint.hpp"

namespace rubato::emulation::tcp {
namespace {

constexpr int kSocketBytes = 256 * 1024;
constexpr int kBacklog = 128;

void set(const Descriptor& fd, int level, int option, int value) {
  (void)::setsockopt(fd.get(), level, option, &value, sizeof value);
}

}  // namespace

Result<sockaddr_in> address_of(const std::string& endpoint) {
  const auto parsed = proto::read_endpoint(endpoint);
  if (!parsed)
    return fail(ErrorCode::BadInput, fmt::format("{}: write tcp://HOST:PORT", endpoint));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = parsed->every_address() ? "0.0.0.0" : parsed->host;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    return fail(ErrorCode::Io, fmt::format("{}: {}", endpoint, ::gai_strerror(error)));
  sockaddr_in address{};
  std::memcpy(&address, found->ai_addr, sizeof address);
  ::freeaddrinfo(found);
  address.sin_port = htons(static_cast<std::uint16_t>(parsed->port));
  return address;
}

Descriptor make_socket(Buffers buffers) {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (buffers == Buffers::System) return fd;
  set(fd, SOL_SOCKET, SO_RCVBUF, kSocketBytes);
  set(fd, SOL_SOCKET, SO_SNDBUF, kSocketBytes);
  return fd;
}

void send_at_once(const Descriptor& fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<Listener> listen_at(const std::string& endpoint, Buffers buffers) {
  RUBATO_ASSIGN(const sockaddr_in address, address_of(endpoint));
  Descriptor fd = make_socket(buffers);
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kBacklog) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return fail(ErrorCode::Io,
                fmt::format("cannot listen on {}: {}", endpoint, std::strerror(errno)));
  return Listener{std::move(fd), ntohs(bound.sin_port)};
}

}  // namespace rubato::emulation::tcp
