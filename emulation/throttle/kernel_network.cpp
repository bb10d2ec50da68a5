#include "emulation/throttle/kernel_network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "emulation/throttle/tcp.hpp"

namespace rubato::emulation {
namespace {

// tbf counts frames: 66 bytes of headers around 1448 of payload. A link's rate is of payload.
constexpr double kFrameBytes = 1514, kPayloadBytes = 1448;
// What passes at once after a pause: two milliseconds, and two frames at least.
constexpr double kBucketSeconds = 0.002, kBucketMin = 2 * kFrameBytes;
// What waits for its turn. More is dropped.
constexpr double kQueueSeconds = 0.05, kQueueMin = 32 * 1024;
constexpr int kHostsInRow = 250;  // of addresses with the same third number

// Runs a command of iproute2 where the calling thread is.
Result<void> run(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "re");
  if (!pipe) return system_error("popen");
  std::array<char, 512> said{};
  std::string first;
  while (std::fgets(said.data(), said.size(), pipe))
    if (first.empty()) first = said.data();
  const int status = ::pclose(pipe);
  if (status == 0) return {};
  while (!first.empty() && first.back() == '\n') first.pop_back();
  return fail(ErrorCode::Unsupported, fmt::format("{}: {}", command, first));
}

Result<void> require_commands() {
  for (const char* const command : {"ip", "tc"})
    if (!run(fmt::format("command -v {}", command)))
      return fail(ErrorCode::Unsupported,
                  fmt::format("--kernel needs the commands ip and tc, and there is no {}: apt-get "
                              "install iproute2, which has both; --throttle alone needs neither",
                              command));
  return {};
}

Descriptor space_of_thread() {
  return Descriptor(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
}

// Calls `work` on a thread in the namespace.
Result<void> in_space(const Descriptor& space, const std::function<Result<void>()>& work) {
  Result<void> done;
  std::thread([&] {
    done = ::setns(space.get(), CLONE_NEWNET) == 0 ? work() : system_error("setns");
  }).join();
  return done;
}

Result<Descriptor> make_space() {
  Descriptor space;
  bool made = false;
  std::thread([&] {
    made = ::unshare(CLONE_NEWNET) == 0;
    space = space_of_thread();
  }).join();
  if (!made || !space) return system_error("unshare");
  return space;
}

// Limits the traffic that leaves by `device`, where the calling thread is. `left_out`: says why
// latencies are left out.
Result<void> shape(const std::string& device, double bytes_per_second,
                   const cluster::LinkModel& link, bool unchecked, std::string& left_out) {
  std::string place = "root";
  if (link.latency_seconds > 0 || link.loss > 0) {
    const double latency = link.latency_seconds * 1e6;
    const auto done = run(fmt::format(
        "tc qdisc add dev {} root handle 1: netem delay {:.0f}us {:.0f}us loss {:g}% limit 100000",
        device, latency, latency * link.jitter, 100 * link.loss));
    if (done)
      place = "parent 1:1";
    else if (unchecked)
      left_out = done.error().message;
    else
      return fail(ErrorCode::Unsupported,
                  fmt::format("{}: the kernel needs netem for latency, jitter and loss; --throttle "
                              "alone does without, and --unchecked leaves them out",
                              done.error().message));
  }
  if (bytes_per_second <= 0) return {};
  const double rate = bytes_per_second * kFrameBytes / kPayloadBytes;
  const double burst = std::max(kBucketMin, rate * kBucketSeconds);
  return run(fmt::format("tc qdisc add dev {} {} tbf rate {:.0f}bit burst {:.0f}b limit {:.0f}b",
                         device, place, rate * 8, burst,
                         burst + std::max(kQueueMin, rate * kQueueSeconds)));
}

}  // namespace

Result<std::unique_ptr<KernelNetwork>> KernelNetwork::make() {
  Descriptor before = space_of_thread();
  if (!before || ::unshare(CLONE_NEWNET) != 0)
    return fail(ErrorCode::Unsupported,
                "--kernel needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN); --throttle alone "
                "needs neither");
  RUBATO_TRY(require_commands());
  auto network = std::make_unique<KernelNetwork>(std::move(before));
  RUBATO_TRY(run("ip link set lo up"));
  RUBATO_TRY(run("ip link add bridge type bridge"));
  RUBATO_TRY(run(fmt::format("ip address add {}/16 dev bridge", address())));
  RUBATO_TRY(run("ip link set bridge up"));
  return network;
}

KernelNetwork::~KernelNetwork() {
  if (before_) (void)::setns(before_.get(), CLONE_NEWNET);
}

Result<void> KernelNetwork::add(const std::string& name, const cluster::LinkModel& link,
                                bool unchecked) {
  const auto number = static_cast<int>(hosts_.size());
  std::string left_out;
  Host host;
  host.address = fmt::format("10.78.{}.{}", 1 + number / kHostsInRow, 1 + number % kHostsInRow);
  RUBATO_ASSIGN(host.space, make_space());
  const std::string end = fmt::format("host{}", number);
  RUBATO_TRY(run(fmt::format("ip link add {} type veth peer name eth0 netns /proc/{}/fd/{}", end,
                             ::getpid(), host.space.get())));
  RUBATO_TRY(run(fmt::format("ip link set {} master bridge up", end)));
  RUBATO_TRY(shape(end, link.down_bytes_per_second, link, unchecked, left_out));
  const auto inside = in_space(host.space, [&]() -> Result<void> {
    RUBATO_TRY(run("ip link set lo up"));
    RUBATO_TRY(run(fmt::format("ip address add {}/16 dev eth0", host.address)));
    RUBATO_TRY(run("ip link set eth0 up"));
    return shape("eth0", link.up_bytes_per_second, link, unchecked, left_out);
  });
  RUBATO_TRY(inside);
  if (!left_out.empty() && !std::exchange(told_, true))
    log_warning("latency, jitter and loss are left out: " + left_out);
  hosts_.emplace(name, std::move(host));
  return {};
}

Result<LinkCheck> KernelNetwork::measure(const std::string& name,
                                         const cluster::LinkModel& link) const {
  RUBATO_ASSIGN(auto listener, tcp::listen_at(fmt::format("tcp://{}:*", address())));
  Result<LinkCheck> check;
  RUBATO_TRY(in_space(host(name).space, [&]() -> Result<void> {
    check = measure_way(fmt::format("tcp://{}:{}", address(), listener.port), listener.fd, link);
    return {};
  }));
  return check;
}

}  // namespace rubato::emulation
