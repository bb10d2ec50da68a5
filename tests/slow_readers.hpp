// tests/slow_readers.hpp - a crowd of connections to a web page that ask slowly or never read, for
// tests of what others still get. Threads: one of its own, which sends.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "tests/loopback.hpp"
#include "tests/pause.hpp"

namespace rubato::tests {

struct SlowReader {
  std::string begins = {};  // sent at once
  bool goes_on = false;     // then a byte now and then, without end
  int receive_bytes = 0;    // of the kernel's buffer; 0: as ever
};

class SlowReaders {
 public:
  // Connects without waiting: some connections may have to wait for the page.
  SlowReaders(int port, std::size_t count, SlowReader reader) : reader_(std::move(reader)) {
    for (std::size_t i = 0; i < count; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      REQUIRE(fd >= 0);
      const int bytes = reader_.receive_bytes;
      if (bytes > 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
      (void)connect_to(fd, port);
      fds_.push_back(fd);
    }
    sender_ = std::jthread([this](const std::stop_token& stop) { send_all(stop); });
  }
  ~SlowReaders() {
    sender_ = {};
    for (const int fd : fds_) ::close(fd);
  }
  SlowReaders(const SlowReaders&) = delete;
  SlowReaders& operator=(const SlowReaders&) = delete;

  // Reads what the first one is sent, slowly at the beginning. Returns: the bytes until the page
  // closed the connection; -1 if it did not in time.
  long read_first(Duration slowly, Duration patience) const {
    const Instant begin = steady_now();
    long all = 0;
    while (steady_now() < begin + patience) {
      char bytes[16384];
      const ssize_t got = ::recv(fds_.front(), bytes, sizeof bytes, 0);
      if (got > 0) all += got;
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != ENOTCONN)) return all;
      if (got < 0 || steady_now() < begin + slowly) let_pass(Duration::from_ms(10));
    }
    return -1;
  }
  // Whether the page closes the first one in time.
  bool loses_first(Duration patience) const { return read_first({}, patience) >= 0; }

 private:
  void send_all(const std::stop_token& stop) const {
    std::vector<std::size_t> sent(fds_.size());
    while (!stop.stop_requested()) {
      for (std::size_t i = 0; i < fds_.size(); ++i) {
        const bool begun = sent[i] == reader_.begins.size();
        if (begun && !reader_.goes_on) continue;
        const std::string part = begun ? "x" : reader_.begins.substr(sent[i]);
        const ssize_t took = ::send(fds_[i], part.data(), part.size(), MSG_NOSIGNAL);
        if (took > 0 && !begun) sent[i] += static_cast<std::size_t>(took);
      }
      let_pass(Duration::from_ms(50));
    }
  }

  const SlowReader reader_;
  std::vector<int> fds_;
  std::jthread sender_;
};

}  // namespace rubato::tests
