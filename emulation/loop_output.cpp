#include "emulation/loop_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/terminal.hpp"

namespace rubato::emulation {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kLineBytesMax = 1024 * 1024;  // a longer line is cut
// A pipe that can be written to at all takes so many.
constexpr std::size_t kPieceBytes = 4096;
constexpr int kRoomMs = 100;
constexpr int kLastReadsMax = 1024;  // of one pipe at the end: somebody may write for ever

}  // namespace

LoopOutput::Stream::Stream(std::string prefix, int descriptor)
    : prefix_(std::move(prefix)), descriptor_(descriptor) {}

LoopOutput::Stream::~Stream() {
  ::close(descriptor_);
}

LoopOutput::LoopOutput(std::function<void(const std::string&)> show)
    : show_(std::move(show)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

LoopOutput::~LoopOutput() {
  ending_ = true;
  thread_.request_stop();
  ::eventfd_write(wake_, 1);
  thread_.join();
  ::close(wake_);
}

Result<LoopOutput::Opened> LoopOutput::open(const std::string& name) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(ErrorCode::Io,
                fmt::format("a pipe for the output of a worker: {}", std::strerror(errno)));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);  // of this end alone
  auto stream = std::make_shared<Stream>(name.empty() ? name : name + ": ", ends[0]);
  {
    const std::lock_guard lock(mutex_);
    streams_.push_back(stream);
  }
  ::eventfd_write(wake_, 1);
  return Opened{std::move(stream), ends[1]};
}

std::string LoopOutput::settle(const Stream& stream, Duration patience) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, std::chrono::nanoseconds(patience.ns), [&] { return stream.ended_; });
  return stream.last_;
}

void LoopOutput::run(const std::stop_token& stop) {
  std::vector<std::shared_ptr<Stream>> open;
  std::vector<pollfd> waits;
  while (true) {
    const bool last = stop.stop_requested();  // one more look at all of them
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(streams_, [](const auto& stream) { return stream->ended_; });
      open = streams_;
    }
    waits.assign(1, {wake_, POLLIN, 0});
    for (const auto& stream : open) waits.push_back({stream->descriptor_, POLLIN, 0});
    ::poll(waits.data(), waits.size(), last ? 0 : wake_ < 0 ? kRoomMs : -1);
    if (waits[0].revents != 0) {
      eventfd_t count = 0;
      ::eventfd_read(wake_, &count);
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (waits[i + 1].revents == 0) continue;
      // One that prints without a pause does not keep the others waiting.
      for (int left = last ? kLastReadsMax : 1; left > 0 && read(*open[i]); --left) {
      }
    }
    if (!last) continue;
    for (const auto& stream : open) end_line(*stream);
    return;
  }
}

bool LoopOutput::read(Stream& stream) {
  std::array<char, kReadBytes> bytes;
  const ssize_t got = ::read(stream.descriptor_, bytes.data(), bytes.size());
  if (got > 0) {
    take(stream, {bytes.data(), static_cast<std::size_t>(got)});
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  end_line(stream);
  const std::lock_guard lock(mutex_);
  stream.ended_ = true;
  ended_.notify_all();
  return false;
}

void LoopOutput::take(Stream& stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    stream.line_ += bytes.substr(0, end);
    if (end > 0) stream.returned_ = false;
    while (stream.line_.size() > kLineBytesMax) {
      std::string rest = stream.line_.substr(kLineBytesMax);
      stream.line_.resize(kLineBytesMax);
      end_line(stream);
      stream.line_ = std::move(rest);
    }
    if (end == bytes.size()) return;
    if (bytes[end] == '\r') {
      stream.returned_ = !stream.line_.empty();
      end_line(stream);
    } else if (!std::exchange(stream.returned_, false)) {
      if (stream.line_.empty()) write(stream.prefix_);
      end_line(stream);
    }
    bytes.remove_prefix(end + 1);
  }
}

// Shows what there is of a line.
void LoopOutput::end_line(Stream& stream) {
  if (stream.line_.empty()) return;
  write(stream.prefix_ + stream.line_);
  const std::lock_guard lock(mutex_);
  stream.last_ = std::exchange(stream.line_, {});
}

void LoopOutput::write(const std::string& line) {
  if (show_) return show_(line);
  // Another process may have drawn a bar on this terminal.
  const std::string bytes = (can_draw(stderr) ? "\r\x1b[K" : "") + line + "\n";
  for (std::size_t at = 0; at < bytes.size() && !unread_; at += kPieceBytes) {
    pollfd room{::fileno(stderr), POLLOUT, 0};
    while (!ending_ && ::poll(&room, 1, kRoomMs) == 0) {
    }
    unread_ = ending_ && !room_for_last_line(stderr);
    if (unread_) return;
    std::fwrite(bytes.data() + at, 1, std::min(kPieceBytes, bytes.size() - at), stderr);
    std::fflush(stderr);
  }
}

}  // namespace rubato::emulation
