#include "proto/reach.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "proto/address.hpp"

namespace rubato::proto {
namespace {

using Outcome = Reach::Outcome;

// ZMTP's greeting: signature, major version, minor version, mechanism, as-server, filler.
constexpr std::size_t kGreetingBytes = 64;
constexpr std::size_t kVersionAt = 10;
constexpr std::size_t kMechanismAt = 12;
constexpr std::size_t kMechanismBytes = 20;
// After these bytes of ours libzmq sends all of its own. Not more: a node that asks for a key ends
// the connection when it has read another mechanism, maybe before it has sent a byte.
constexpr std::array<unsigned char, kVersionAt + 1> kOurs{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3};

class Socket {
 public:
  explicit Socket(int family)
      : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  // Returns: false at the deadline.
  bool wait(short events, Instant deadline) const {
    while (true) {
      const Duration left = deadline - steady_now();
      if (left <= Duration{}) return false;
      pollfd wait{fd_, events, 0};
      const int ready = ::poll(&wait, 1, static_cast<int>(left.ns / 1'000'000) + 1);
      if (ready > 0) return true;
      if (ready < 0 && errno != EINTR) return false;
    }
  }

 private:
  int fd_;
};

Outcome outcome_of(int error) {
  switch (error) {
    case ECONNREFUSED:
      return Outcome::Refused;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
      return Outcome::NoRoute;
    default:
      return Outcome::TimedOut;
  }
}

// 0, or why there is no connection.
int connect(const Socket& socket, const Address& address, Instant deadline) {
  if (::connect(socket.fd(), address.get(), address.size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!socket.wait(POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// What the other end greets with; shorter than a greeting if it is none of ZeroMQ.
std::string hear_greeting(const Socket& socket, Instant deadline) {
  if (::send(socket.fd(), kOurs.data(), kOurs.size(), MSG_NOSIGNAL) < 0) return {};
  std::string theirs;
  std::array<char, kGreetingBytes> bytes{};
  while (theirs.size() < kGreetingBytes && socket.wait(POLLIN, deadline)) {
    const auto got = ::recv(socket.fd(), bytes.data(), kGreetingBytes - theirs.size(), 0);
    if (got <= 0) break;
    theirs.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return theirs;
}

Reach reach_address(const Address& address, Duration patience) {
  Reach result{.outcome = Outcome::TimedOut, .address = address.text()};
  const Instant deadline = steady_now() + patience;
  const Socket socket(address.family());
  if (const int error = connect(socket, address, deadline); error != 0) {
    result.outcome = outcome_of(error);
    return result;
  }
  const std::string theirs = hear_greeting(socket, deadline);
  const bool speaks = theirs.size() >= kVersionAt && theirs[0] == '\xff' && theirs[9] == '\x7f';
  result.outcome = speaks ? Outcome::Answers : Outcome::Mute;
  result.encrypted =
      theirs.size() == kGreetingBytes &&
      std::string_view(theirs).substr(kMechanismAt, kMechanismBytes).starts_with("CURVE");
  return result;
}

}  // namespace

Reach reach(const std::string& host, int port, Duration patience) {
  Reach result{.outcome = Outcome::UnknownName};
  for (const Address& address : resolve_all(host, port)) {
    Reach next = reach_address(address, patience);
    if (next.good()) return next;
    if (result.address.empty()) {
      result = std::move(next);
      result.itself = named_loopback(host, address).value_or("");
    } else {
      result.address += ", " + next.address;
    }
  }
  return result;
}

std::string likely_cause(const Reach& reach) {
  switch (reach.outcome) {
    case Outcome::Answers:
      return "it answers";
    case Outcome::Mute:
      return "another program listens there, or the node hangs, or too many have connected to it";
    case Outcome::Refused:
      if (!reach.itself.empty())
        return reach.itself + ": write the address that the box has in the network";
      return "nothing listens there: is it running, and is this its port?";
    case Outcome::TimedOut:
      return "no packet came back: a firewall drops them, or the machine is off";
    case Outcome::NoRoute:
      return "there is no route: this machine has no interface in that network";
    case Outcome::UnknownName:
      return "the name is unknown: add it to /etc/hosts, or give the address";
  }
  return {};
}

}  // namespace rubato::proto
