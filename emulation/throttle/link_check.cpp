#include "emulation/throttle/link_check.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <vector>

#include "base/time.hpp"
#include "emulation/throttle/relay.hpp"
#include "emulation/throttle/tcp.hpp"

namespace rubato::emulation {
namespace {

constexpr double kBurstSeconds = 0.25;
constexpr double kSlowestSeconds = 2;  // what takes longer is not measured
constexpr double kBurstBytesMin = 2048;
constexpr double kBurstBytesMax = 64 << 20;
constexpr int kShortMessages = 9;
constexpr int kAttempts = 6;
constexpr auto kPause = std::chrono::seconds(1);  // between attempts, so that a busy moment passes
constexpr Duration kPatience = Duration::from_seconds(10);
constexpr double kToleratedPart = 0.05;
constexpr double kToleratedSeconds = 0.002;

bool await(const Descriptor& fd, short events, Instant deadline) {
  const auto ms = std::max<std::int64_t>(0, (deadline - steady_now()).ns / 1'000'000);
  pollfd wait{fd.get(), events, 0};
  return ::poll(&wait, 1, static_cast<int>(ms)) == 1;
}

Error late() {
  return {ErrorCode::Io, "the throttle let nothing pass in time: is this machine overloaded?"};
}

// Sends so many bytes from one end and takes them at the other. Returns: when the last one came.
Result<Instant> carry(const Descriptor& from, const Descriptor& to, std::size_t bytes) {
  const Instant deadline = steady_now() + kPatience;
  std::jthread sender([&] {
    const std::vector<char> block(64 * 1024);
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t most = std::min(left, block.size());
      const auto sent = ::send(from.get(), block.data(), most, MSG_NOSIGNAL);
      if (sent > 0)
        left -= static_cast<std::size_t>(sent);
      else if (!await(from, POLLOUT, deadline))
        return;
    }
  });
  std::array<char, 64 * 1024> block{};
  for (std::size_t left = bytes; left > 0;) {
    const auto got = ::recv(to.get(), block.data(), std::min(left, block.size()), 0);
    if (got > 0)
      left -= static_cast<std::size_t>(got);
    else if (got == 0 || !await(to, POLLIN, deadline))
      return tl::unexpected<Error>(late());
  }
  return steady_now();
}

// 0: not measured.
std::size_t burst(double bytes_per_second) {
  const double bytes = std::clamp(bytes_per_second * kBurstSeconds, kBurstBytesMin, kBurstBytesMax);
  const bool fits = bytes_per_second > 0 && bytes <= bytes_per_second * kSlowestSeconds;
  return fits ? static_cast<std::size_t>(bytes) : 0;
}

bool too_long(const cluster::LinkModel& link) {
  return link.latency_seconds > kSlowestSeconds;
}

// `warms_up`: bytes that do not count go first.
Result<LinkCheck> measure(const std::string& endpoint, const Descriptor& listener,
                          const cluster::LinkModel& link, bool warms_up) {
  LinkCheck check;
  if (too_long(link)) return check;
  RUBATO_ASSIGN(const proto::Address address, tcp::address_of(endpoint));
  const Descriptor near = tcp::make_socket();
  (void)::connect(near.get(), address.get(), address.size);
  if (!await(listener, POLLIN, steady_now() + kPatience)) return tl::unexpected<Error>(late());
  const Descriptor far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  tcp::send_at_once(near);

  std::vector<double> latencies;
  for (int i = 0; i < kShortMessages; ++i) {
    const Instant began = steady_now();
    RUBATO_ASSIGN(const Instant ended, carry(near, far, 1));
    latencies.push_back((ended - began).seconds());
  }
  // A thread that wakes up late only adds, so the least is the link's, unless that changes by
  // itself.
  std::ranges::sort(latencies);
  const bool steady = link.jitter == 0 && link.loss == 0;
  check.latency_seconds = latencies[steady ? 0 : latencies.size() / 2];

  const auto rate = [&](const Descriptor& from, const Descriptor& to,
                        double asked) -> Result<double> {
    const std::size_t bytes = burst(asked);
    if (bytes == 0) return 0.0;
    if (warms_up) RUBATO_TRY(carry(from, to, bytes));
    const Instant began = steady_now();
    RUBATO_ASSIGN(const Instant ended, carry(from, to, bytes));
    return static_cast<double>(bytes) / ((ended - began).seconds() - link.latency_seconds);
  };
  RUBATO_ASSIGN(check.up_bytes_per_second, rate(near, far, link.up_bytes_per_second));
  RUBATO_ASSIGN(check.down_bytes_per_second, rate(far, near, link.down_bytes_per_second));
  return check;
}

}  // namespace

Result<LinkCheck> measure_link(const cluster::LinkModel& link, std::uint64_t seed) {
  // Chance would need more than a second to even out.
  cluster::LinkModel steady = link;
  steady.jitter = 0;
  steady.loss = 0;
  Relay relay(steady, seed);
  RUBATO_ASSIGN(auto listener, tcp::listen_at("tcp://127.0.0.1:*"));
  RUBATO_ASSIGN(const std::string way,
                relay.way_out(fmt::format("tcp://127.0.0.1:{}", listener.port)));
  return measure(way, listener.fd, steady, false);
}

Result<LinkCheck> measure_way(const std::string& endpoint, const Descriptor& listener,
                              const cluster::LinkModel& link) {
  return measure(endpoint, listener, link, true);
}

std::string to_text(const cluster::LinkModel& link, const LinkCheck& check) {
  const auto rate = [](const char* way, double asked, double got) {
    if (asked <= 0) return fmt::format("{} unlimited", way);
    const std::string text = fmt::format("{} {:.4g} Mb/s asked", way, asked * 8e-6);
    return got > 0 ? fmt::format("{}, {:.4g} got", text, got * 8e-6)
                   : text + ", too slow to be measured";
  };
  return fmt::format("{}; {}; latency {:.4g} ms asked{}",
                     rate("up", link.up_bytes_per_second, check.up_bytes_per_second),
                     rate("down", link.down_bytes_per_second, check.down_bytes_per_second),
                     link.latency_seconds * 1e3,
                     too_long(link) ? ", too long to be measured"
                                    : fmt::format(", {:.4g} got", check.latency_seconds * 1e3));
}

bool delivers(const cluster::LinkModel& link, const LinkCheck& check) {
  const auto near = [](double asked, double got) {
    return asked <= 0 || got <= 0 || std::abs(got - asked) <= kToleratedPart * asked;
  };
  const double off = std::abs(check.latency_seconds - link.latency_seconds);
  return near(link.up_bytes_per_second, check.up_bytes_per_second) &&
         near(link.down_bytes_per_second, check.down_bytes_per_second) &&
         (too_long(link) ||
          off <= std::max(kToleratedSeconds, kToleratedPart * link.latency_seconds));
}

Result<std::string> check_link(const cluster::LinkModel& link, const MeasureLink& measure) {
  for (int attempt = 1;; ++attempt) {
    RUBATO_ASSIGN(const LinkCheck check, measure());
    std::string text = to_text(link, check);
    if (delivers(link, check)) return text;
    if (attempt == kAttempts)
      return fail(ErrorCode::BadInput,
                  fmt::format("{}: more than 5 % off; leave this machine more time, or say "
                              "--unchecked to go on all the same",
                              text));
    std::this_thread::sleep_for(kPause);
  }
}

Result<std::string> check_link(const cluster::LinkModel& link, std::uint64_t seed) {
  return check_link(link, [&] { return measure_link(link, seed); });
}

}  // namespace rubato::emulation
