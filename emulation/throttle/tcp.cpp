#include "emulation/throttle/tcp.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
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

Result<proto::Address> address_of(const std::string& endpoint) {
  const auto parsed = proto::read_endpoint(endpoint);
  if (!parsed) return fail(ErrorCode::BadInput, fmt::format("{}: write tcp://HOST:PORT", endpoint));
  const auto address = proto::resolve(parsed->host, parsed->port);
  if (!address)
    return fail(ErrorCode::Io, fmt::format("{}: no address belongs to the name", endpoint));
  return *address;
}

Descriptor make_socket(int family, Buffers buffers) {
  Descriptor fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (buffers == Buffers::System) return fd;
  set(fd, SOL_SOCKET, SO_RCVBUF, kSocketBytes);
  set(fd, SOL_SOCKET, SO_SNDBUF, kSocketBytes);
  return fd;
}

void send_at_once(const Descriptor& fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<Listener> listen_at(const std::string& endpoint, Buffers buffers) {
  RUBATO_ASSIGN(const proto::Address address, address_of(endpoint));
  Descriptor fd = make_socket(address.family(), buffers);
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  proto::Address bound;
  bound.size = sizeof bound.storage;
  if (::bind(fd.get(), address.get(), address.size) != 0 || ::listen(fd.get(), kBacklog) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.size) != 0)
    return fail(ErrorCode::Io,
                fmt::format("cannot listen on {}: {}", endpoint, std::strerror(errno)));
  return Listener{std::move(fd), bound.port()};
}

}  // namespace rubato::emulation::tcp
