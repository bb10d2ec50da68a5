// emulation/throttle/link_probe.hpp - what the way to another host is like: its rate each way, its
// latency and jitter, measured over one TCP connection. The other host runs a LinkListener.
// One asks, the other answers: both say kGreeting first. A question is a letter and a number of 8
// bytes (n): P: answer with a byte. U: take n bytes, and answer with their rate, a double. D: send
// n bytes. A rate is of the last three quarters of the bytes, where they arrive, so that TCP's slow
// start and what buffers swallow do not count.
// Threads: the caller's; it blocks. Every wait has a deadline, and ends when `stop` is requested.
#pragma once

#include <stop_token>
#include <string>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::emulation {

// Takes about 15 s. The latency is half of the mean round trip. The jitter takes the ways there and
// back as independent. Timeout, Io or BadInput where nobody there listens so.
[[nodiscard]] Result<cluster::LinkModel> probe_link(const std::string& endpoint,
                                                    const std::stop_token& stop);

class LinkListener {
 public:
  [[nodiscard]] static Result<LinkListener> open(const std::string& endpoint);
  int port() const { return port_; }
  // Answers one host after the other, until `stop` is requested.
  void run(const std::stop_token& stop) const;

 private:
  LinkListener(Descriptor fd, int port) : fd_(std::move(fd)), port_(port) {}
  Descriptor fd_;
  int port_ = 0;
};

}  // namespace rubato::emulation
