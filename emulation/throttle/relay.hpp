// emulation/throttle/relay.hpp - a host's link in real time: TCP connections of this process pass
// through it, and share its rate and latency. A process with a relay is one host. No privileges are
// needed. Encrypted connections pass too: the relay does not read them.
// A connection out: the process connects to a port of loopback, and the relay goes on to the other
// host. A connection in: the relay listens in public, and goes on to a port of loopback.
// Bytes wait in bounded buffers, so a sender feels when the link is full. The end of one direction
// passes on like its last byte. If an end dies, the connection's other end is closed too.
// Threads: one of its own moves the bytes; the methods may be called from any other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_file.hpp"
#include "base/result.hpp"
#include "cluster/cluster_config.hpp"

namespace rubato::emulation {

class Relay {
 public:
  // `seed`: of latencies and losses.
  Relay(const cluster::LinkModel& link, std::uint64_t seed);
  // What was sent still arrives, if it does within 2 s.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Returns: the endpoint of loopback that leads to `endpoint` (tcp://HOST:PORT). The other host is
  // looked up at each connection.
  [[nodiscard]] Result<std::string> way_out(const std::string& endpoint);
  // Listens at `bind`; what connects there reaches `inside`. Returns: `bind` with its real port.
  [[nodiscard]] Result<std::string> way_in(const std::string& bind, const std::string& inside);

  // From now on the link is another one.
  void change(const cluster::LinkModel& link);
  // For so long nothing passes, each way: an outage. The connections stay. 0 ends it.
  void cut(Duration up, Duration down);
  // For so long nothing passes on connections out to one endpoint: a partition.
  void cut(const std::string& endpoint, Duration length);

 private:
  class Loop;
  void tell(std::function<void()> order);
  void wake();
  void run(const std::stop_token& stop);
  void serve();

  std::unique_ptr<Loop> loop_;
  std::mutex mutex_;                           // guards orders_ and ways_out_
  std::vector<std::function<void()>> orders_;  // for the thread
  std::map<std::string, std::string> ways_out_;
  Descriptor news_;      // an event of orders_
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace rubato::emulation
