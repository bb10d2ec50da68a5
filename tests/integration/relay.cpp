#include "tests/integration/relay.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "proto/shm/signal.hpp"
#include "tests/loopback.hpp"

namespace rubato::integration {
namespace {

constexpr std::size_t kGreetingBytes = 64;
constexpr int kPollMs = 20;

bool send_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto done = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (done <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

// ZMTP: flags, then a length of 1 byte or 8, then the body.
struct Frame {
  std::size_t head = 0;
  std::size_t body = 0;
  bool more = false;
  bool command = false;
};

// Nothing: the frame's head is not whole yet.
bool read_frame(std::span<const std::byte> bytes, Frame& frame) {
  if (bytes.empty()) return false;
  const auto flags = std::to_integer<unsigned>(bytes[0]);
  frame.more = (flags & 1u) != 0;
  frame.command = (flags & 4u) != 0;
  const std::size_t length = (flags & 2u) != 0 ? 8 : 1;
  frame.head = 1 + length;
  if (bytes.size() < frame.head) return false;
  frame.body = 0;
  for (const std::byte byte : bytes.subspan(1, length))
    frame.body = frame.body << 8 | std::to_integer<std::size_t>(byte);
  return true;
}

// A host's offer to share memory becomes that of another host.
void hide_host(std::span<std::byte> body) {
  auto signal = proto::shm::read_signal(body);
  if (!signal || signal->kind != proto::shm::SignalKind::Offer) return;
  signal->host = "elsewhere";
  const auto bytes = proto::shm::write_signal(*signal);
  std::ranges::copy(bytes, body.begin());
}

}  // namespace

struct Relay::Link {
  int near = -1;  // who connected
  int far = -1;
  std::size_t greeted = 0;  // bytes of the greeting so far
  Bytes unread;             // of near, not forwarded yet
  Message message;          // the frames so far
  Sent sent;
};

Relay::Relay() : listener_(tests::listen_anywhere(16)), port_(tests::port_of(listener_)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Relay::~Relay() {
  thread_.request_stop();
  thread_.join();
  for (const auto& link : links_)
    for (const int fd : {link->near, link->far})
      if (fd >= 0) ::close(fd);
  ::close(listener_);
}

void Relay::set_target(int port) {
  const std::lock_guard lock(mutex_);
  target_ = port;
}

std::vector<Relay::Sent> Relay::sent() const {
  const std::lock_guard lock(mutex_);
  std::vector<Sent> all;
  for (const auto& link : links_) all.push_back(link->sent);
  return all;
}

void Relay::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> waits{{listener_, POLLIN, 0}};
    for (const auto& link : links_) {
      waits.push_back({link->near, POLLIN, 0});
      waits.push_back({link->far, POLLIN, 0});
    }
    if (::poll(waits.data(), waits.size(), kPollMs) <= 0) continue;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      Link& link = *links_[i];
      const bool up = waits[1 + 2 * i].revents == 0 || pass_up(link);
      const bool down = waits[2 + 2 * i].revents == 0 || pass_down(link);
      if (up && down) continue;
      ::close(std::exchange(link.near, -1));
      ::close(std::exchange(link.far, -1));
    }
    if (waits[0].revents != 0) accept();
  }
}

void Relay::accept() {
  auto link = std::make_unique<Link>();
  link->near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (link->near < 0) return;
  link->far = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::lock_guard lock(mutex_);
  const bool connected = tests::connect_to(link->far, target_) == 0;
  if (!connected) {  // who connected tries again by itself
    ::close(link->near);
    ::close(link->far);
    return;
  }
  links_.push_back(std::move(link));
}

bool Relay::pass_down(Link& link) {
  Bytes bytes(64 * 1024);
  const auto got = ::recv(link.far, bytes.data(), bytes.size(), 0);
  return got > 0 && send_all(link.near, {bytes.data(), static_cast<std::size_t>(got)});
}

bool Relay::pass_up(Link& link) {
  const std::size_t before = link.unread.size();
  link.unread.resize(before + 64 * 1024);
  const auto got = ::recv(link.near, link.unread.data() + before, 64 * 1024, 0);
  link.unread.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return got > 0 && parse(link);
}

bool Relay::parse(Link& link) {
  const std::lock_guard lock(mutex_);
  std::span<std::byte> left = link.unread;
  const auto forward = [&](std::size_t bytes) {
    link.sent.bytes += bytes;
    const bool sent = send_all(link.far, left.first(bytes));
    left = left.subspan(bytes);
    return sent;
  };
  Frame frame;
  bool good = true;
  // Each end sends the rest of its greeting when it has seen the beginning of the other's.
  if (const std::size_t rest = kGreetingBytes - link.greeted; rest > 0) {
    const std::size_t bytes = std::min(rest, left.size());
    link.greeted += bytes;
    link.sent.handshake += bytes;
    good = forward(bytes);
  }
  while (good && link.greeted == kGreetingBytes && read_frame(left, frame) &&
         left.size() >= frame.head + frame.body) {
    const auto body = left.subspan(frame.head, frame.body);
    if (frame.command) {
      link.sent.handshake += frame.head + frame.body;
    } else {
      link.message.emplace_back(body.begin(), body.end());
      if (!frame.more) link.sent.messages.push_back(std::exchange(link.message, {}));
    }
    hide_host(body);
    good = forward(frame.head + frame.body);
  }
  link.unread.erase(link.unread.begin(),
                    link.unread.end() - static_cast<std::ptrdiff_t>(left.size()));
  return good;
}

}  // namespace rubato::integration
