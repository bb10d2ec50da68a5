#include "proto/zmq_connections.hpp"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/memory_file.hpp"
#include "proto/address.hpp"
#include "proto/codec.hpp"

namespace rubato::proto {
namespace {

// The handshake, which counts as taken and is never delivered.
constexpr std::uint64_t kHandshakeBytes = 4096;
// ZeroMQ may have taken one message and not delivered it yet when the next one begins.
constexpr std::uint64_t kMessagesAtOnce = 2;
// Beyond one of each peer: connections that have broken, and others that ask.
constexpr std::size_t kMorePeers = 2;
// Each look costs two system calls a connection.
constexpr std::size_t kLookedAtMax = 1024;
// More than the kernel holds for a connection.
constexpr std::size_t kDroppedAtOnce = 64u << 20;
// Descriptors that are kept free: an eighth of all, within these limits.
constexpr rlim_t kFreeMin = 4;
constexpr rlim_t kFreeMax = 64;
// A node speaks as soon as it is connected.
constexpr Duration kSilentMin = Duration::from_ms(1'000);

std::optional<std::uint64_t> cookie_of(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return std::nullopt;
  return cookie;
}

// Bytes that ZeroMQ has taken from the kernel: those that came, less those that still wait.
std::optional<std::uint64_t> bytes_taken(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  int waiting = 0;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  if (::ioctl(descriptor, FIONREAD, &waiting) != 0) return std::nullopt;
  return info.tcpi_bytes_received -
         std::min<std::uint64_t>(info.tcpi_bytes_received, static_cast<std::uint64_t>(waiting));
}

std::string address_of(int descriptor) {
  const auto address = peer_address(descriptor);
  return address ? address->text() : "an unknown address";
}

// Descriptors from this one on are to stay free.
int first_to_keep_free() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1 << 30;
  const rlim_t all = std::min<rlim_t>(limit.rlim_cur, 1 << 30);
  return static_cast<int>(all - std::min(all, std::clamp(all / 8, kFreeMin, kFreeMax)));
}

}  // namespace

void Connections::on_accepted(int descriptor, Instant now) {
  on_ended(descriptor);
  connections_[descriptor] = {.cookie = cookie_of(descriptor).value_or(0), .since = now};
}

void Connections::on_ended(int descriptor) {
  auto ended = connections_.extract(descriptor);
  if (!ended) return;
  descriptors_.erase(ended.mapped().peer);
  set_unfinished(ended.mapped(), 0);
}

void Connections::on_peer(PeerId peer, int descriptor) {
  const auto at = connections_.find(descriptor);
  if (at == connections_.end()) return;  // it has ended since
  // A late message of an ended connection may have come with the same descriptor.
  descriptors_.erase(at->second.peer);
  at->second.peer = peer;
  at->second.unread = std::make_shared<std::atomic<std::size_t>>(0);
  descriptors_[peer] = descriptor;
}

void Connections::on_message(PeerId peer, std::size_t wire_bytes) {
  ++messages_;
  const auto at = descriptors_.find(peer);
  if (at != descriptors_.end()) connections_.at(at->second).delivered += wire_bytes;
}

Connections::Unread Connections::unread(PeerId peer) const {
  const auto at = descriptors_.find(peer);
  if (at == descriptors_.end()) return nullptr;
  const Connection& connection = connections_.at(at->second);
  return connection.cut ? nullptr : connection.unread;
}

std::string Connections::cut_off(PeerId peer) {
  const auto at = descriptors_.find(peer);
  return at == descriptors_.end() ? std::string() : shut(at->second, connections_.at(at->second));
}

// A copy of the descriptor refers to one socket for sure. ZeroMQ may close its own at any time, and
// the number may be another socket's then. ZeroMQ's I/O thread sees the end, and frees all.
std::string Connections::shut(int descriptor, Connection& connection) {
  connection.cut = true;
  set_unfinished(connection, 0);
  const Descriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  // Without a free descriptor the number must do.
  const int socket = copy ? copy.get() : descriptor;
  if (cookie_of(socket) != connection.cookie) return {};
  std::string address = address_of(socket);
  ::shutdown(socket, SHUT_RDWR);
  // Else ZeroMQ would still read what waits in the kernel.
  while (::recv(socket, nullptr, kDroppedAtOnce, MSG_TRUNC | MSG_DONTWAIT) > 0) {
  }
  return address;
}

void Connections::set_unfinished(Connection& connection, std::uint64_t bytes) {
  unfinished_ = unfinished_ - connection.unfinished + bytes;
  connection.unfinished = bytes;
}

// ROUTER takes a whole message of each peer in turn. Bytes that ZeroMQ had at the last look, and
// has not delivered since, are an unfinished message in two cases:
// - No message was waiting in between.
// - All others had their turn, and this peer had no message.
// A peer that has delivered nothing may begin with its largest message: it was cut off from us.
bool Connections::endless(int descriptor, Connection& connection) {
  const bool unfinished = empty_ || connection.delivered == connection.delivered_then;
  const std::uint64_t whole = connection.delivered + kHandshakeBytes;
  set_unfinished(connection, unfinished && connection.taken > whole ? connection.taken - whole : 0);
  const std::uint64_t messages = connection.peer == 0 ? 1 : kMessagesAtOnce;
  if (connection.unfinished > messages * message_bytes_max_) return true;
  const std::uint64_t taken = bytes_taken(descriptor).value_or(0);
  connection.stalled = taken == std::exchange(connection.taken, taken);
  connection.delivered_then = connection.delivered;
  return false;
}

void Connections::bound_unfinished(std::vector<Cut>& cuts) {
  while (unfinished_ > (peers_ + kMorePeers) * message_bytes_max_) {
    const auto largest = std::ranges::max_element(connections_, {}, [](const auto& each) {
      const Connection& connection = each.second;
      return std::pair(connection.stalled && connection.unfinished > 0, connection.unfinished);
    });
    cuts.push_back({Cut::Why::Largest, shut(largest->first, largest->second)});
  }
}

// The kernel gives the lowest free number, so a high one says that few are left.
void Connections::make_room(Instant now, std::vector<Cut>& cuts) {
  const int limit = first_to_keep_free();
  crowded_ = connections_.rbegin()->first >= limit;
  for (auto last = connections_.rbegin(); last != connections_.rend() && last->first >= limit;
       ++last) {
    Place victim = connections_.end();
    for (auto each = connections_.begin(); each != connections_.end(); ++each) {
      const Connection& silent = each->second;
      if (silent.cut || silent.peer != 0 || now - silent.since < kSilentMin) continue;
      if (victim == connections_.end() || silent.since < victim->second.since) victim = each;
    }
    const bool crowded = victim == connections_.end();
    if (crowded && (last->second.cut || now - last->second.since >= kSilentMin)) continue;
    if (crowded) victim = std::prev(last.base());
    cuts.push_back(
        {crowded ? Cut::Why::Crowded : Cut::Why::Silent, shut(victim->first, victim->second)});
  }
}

std::vector<Connections::Cut> Connections::look(Instant now) {
  std::vector<Cut> cuts;
  if (now < next_look_) return cuts;
  crowded_ = false;
  if (connections_.empty()) return cuts;
  next_look_ = now + kLookEvery;
  make_room(now, cuts);
  if (!empty_ && messages_ <= connections_.size()) return cuts;
  auto at = connections_.upper_bound(looked_at_);
  for (std::size_t left = std::min(connections_.size(), kLookedAtMax); left > 0; --left, ++at) {
    if (at == connections_.end()) at = connections_.begin();
    auto& [descriptor, connection] = *at;
    looked_at_ = descriptor;
    if (!connection.cut && endless(descriptor, connection))
      cuts.push_back({Cut::Why::Endless, shut(descriptor, connection)});
  }
  bound_unfinished(cuts);
  empty_ = false;
  messages_ = 0;
  return cuts;
}

}  // namespace rubato::proto
