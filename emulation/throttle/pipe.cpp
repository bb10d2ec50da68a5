#include "emulation/throttle/pipe.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace rubato::emulation {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

bool not_now() {
  return errno == EAGAIN || errno == EWOULDBLOCK;
}

}  // namespace

void Pipe::on_writable() {
  full_ = false;
  link_.hold(flow_, false);
}

bool Pipe::read(Instant now) {
  bool any = false;
  while (wants_to_read()) {
    std::array<std::byte, kReadBytes> bytes;
    const auto got =
        ::recv(source_, bytes.data(), std::min(bytes.size(), link_.room(flow_)), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && not_now()) break;
    if (got <= 0) {
      ended_ = true;
      broken_ = got < 0;
      break;
    }
    const auto count = static_cast<std::size_t>(got);
    bytes_.push({bytes.data(), count});
    link_.offer(now, flow_, count);
    any = true;
  }
  return any;
}


bool Pipe::write(Instant now) {
  std::size_t arrived = link_.arrived(now, flow_);
  while (arrived > 0 && !full_) {
    const auto bytes = bytes_.front(arrived);
    const auto put = ::send(sink_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && !not_now()) return false;
    if (put < 0) {
      full_ = true;
      link_.hold(flow_, true);
      break;
    }
    const auto count = static_cast<std::size_t>(put);
    bytes_.pop(count);
    link_.take(flow_, count);
    arrived -= count;
  }
  if (ended_ && bytes_.size() == 0 && !std::exchange(told_end_, true))
    ::shutdown(sink_, SHUT_WR);
  return !(told_end_ && broken_);
}

}  // namespace rubato::emulation
