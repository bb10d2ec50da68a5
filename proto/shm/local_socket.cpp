#include "proto/shm/local_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rubato::proto::shm {
namespace {

constexpr int kBacklog = 64;
constexpr std::byte kBell{'!'};

Result<Descriptor> unix_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_error("socket");
  return socket;
}

Result<ucred> credentials(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error("SO_PEERCRED");
  return peer;
}

Result<void> check_user(const Descriptor& socket) {
  RUBATO_ASSIGN(const ucred peer, credentials(socket));
  if (peer.uid != ::geteuid())
    return fail(ErrorCode::Refused, fmt::format("process {} belongs to another user", peer.pid));
  return {};
}

}  // namespace

Result<Doorstep> listen_locally() {
  RUBATO_ASSIGN(Descriptor socket, unix_socket());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t size = sizeof(address.sun_family);  // no path: the kernel chooses an abstract one
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return system_error("bind");
  if (::listen(socket.get(), kBacklog) != 0) return system_error("listen");
  size = sizeof(address);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return system_error("getsockname");
  std::string path(address.sun_path, size - offsetof(sockaddr_un, sun_path));
  return Doorstep{std::move(socket), std::move(path)};
}

Result<Descriptor> connect_locally(const std::string& path) {
  RUBATO_ASSIGN(Descriptor socket, unix_socket());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > sizeof(address.sun_path))
    return fail(ErrorCode::Corrupt, "a Unix address that is none");
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
    return system_error("connect");
  RUBATO_TRY(check_user(socket));
  return socket;
}

Result<Descriptor> accept_locally(const Descriptor& listener) {
  Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool nobody = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (!socket && !nobody) return system_error("accept");
  if (!socket) return socket;
  RUBATO_TRY(check_user(socket));
  return socket;
}

std::string process_at(const Descriptor& socket) {
  const auto peer = credentials(socket);
  return fmt::format("process {}", peer ? peer->pid : 0);
}

Result<void> send_parcel(const Descriptor& socket, std::span<const std::byte> bytes,
                         std::span<const int> descriptors) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kParcelDescriptorsMax * sizeof(int))> space{};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};  // sendmsg only reads it
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = space.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  if (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) return system_error("sendmsg");
  return {};
}

void ring_bell(const Descriptor& socket) {
  // Fails when so many are pending that there is no room, or when nobody is there.
  (void)!::send(socket.get(), &kBell, sizeof(kBell), MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool is_bell(const Parcel& parcel) {
  return parcel.size == sizeof(kBell) && parcel.data[0] == kBell;
}

void end_reading(const Descriptor& socket) {
  ::shutdown(socket.get(), SHUT_WR);
}

Result<std::optional<Parcel>> receive_parcel(const Descriptor& socket) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kParcelDescriptorsMax * sizeof(int))> space{};
  Parcel parcel;
  iovec part{parcel.data.data(), parcel.data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  const ssize_t size = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  const bool later = errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS;
  if (size < 0 && later) return std::nullopt;
  const bool closed = size == 0 || (size < 0 && errno == ECONNRESET);  // ours was not read
  if (closed) return fail(ErrorCode::Io, "the other process closed its end");
  if (size < 0) return system_error("recvmsg");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
      parcel.descriptors.emplace_back(fd);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return fail(ErrorCode::Corrupt, "a datagram longer than agreed");
  parcel.size = static_cast<std::size_t>(size);
  return parcel;
}

}  // namespace rubato::proto::shm
