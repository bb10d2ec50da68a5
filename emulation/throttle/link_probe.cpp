#include "emulation/throttle/link_probe.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "emulation/throttle/tcp.hpp"

namespace rubato::emulation {
namespace {

constexpr std::string_view kGreeting = "rubato-link-1\n";
constexpr std::size_t kQuestionBytes = 1 + sizeof(std::uint64_t);
constexpr int kPings = 100;
constexpr Duration kPingTime = Duration::from_seconds(5);  // for all of them
constexpr Duration kPingPause = Duration::from_ms(5);      // a burst has one draw of the jitter
// Transfers grow until one takes so long.
constexpr std::uint64_t kBytesMin = 4096, kBytesMax = std::uint64_t{1} << 28;
constexpr std::uint64_t kGrowth = 4;
constexpr Duration kEnough = Duration::from_seconds(1);
constexpr Duration kSilence = Duration::from_seconds(10);  // of the other host
constexpr Duration kTransferMax = Duration::from_seconds(30);
constexpr Duration kVisitMax = Duration::from_seconds(120);  // of one host at a listener
constexpr Duration kTurn = Duration::from_ms(100);           // deaf to `stop`

// One end of the connection. After an error it is of no more use.
class End {
 public:
  End(Descriptor fd, std::string other, const std::stop_token& stop)
      : fd_(std::move(fd)), other_(std::move(other)), stop_(stop) {}

  // Io or Timeout names the other host.
  Result<void> send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0)
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      else
        RUBATO_TRY(await(POLLOUT));
    }
    return {};
  }
  Result<void> send(std::string_view text) { return send(std::as_bytes(std::span(text))); }

  Result<void> take(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      RUBATO_ASSIGN(const std::size_t got, take_some(bytes));
      bytes = bytes.subspan(got);
    }
    return {};
  }

  Result<void> send_many(std::uint64_t bytes) {
    const std::vector<std::byte> block(64 * 1024);
    const Instant until = steady_now() + kTransferMax;
    for (; bytes > 0; bytes -= std::min<std::uint64_t>(bytes, block.size())) {
      if (steady_now() > until) return late();
      RUBATO_TRY(send(std::span(block).first(std::min<std::uint64_t>(bytes, block.size()))));
    }
    return {};
  }
  // Returns: bytes a second.
  Result<double> take_many(std::uint64_t bytes) {
    std::vector<std::byte> block(64 * 1024);
    const Instant until = steady_now() + kTransferMax;
    std::uint64_t have = 0, counted_from = 0;
    Instant began;
    while (have < bytes) {
      RUBATO_ASSIGN(
          const std::size_t got,
          take_some(std::span(block).first(std::min<std::uint64_t>(bytes - have, block.size()))));
      have += got;
      const Instant now = steady_now();
      if (now > until) return late();
      if (counted_from == 0 && have >= bytes / 4) {
        counted_from = have;
        began = now;
      }
    }
    const double seconds = std::max((steady_now() - began).seconds(), 1e-9);
    return static_cast<double>(bytes - counted_from) / seconds;
  }

  Result<void> await(short events) {
    const Instant until = steady_now() + kSilence;
    while (steady_now() < until) {
      if (stop_.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
      pollfd wait{fd_.get(), events, 0};
      const int ready = ::poll(&wait, 1, static_cast<int>(kTurn.ms()));
      int error = 0;
      socklen_t size = sizeof error;
      ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      if (error != 0)
        return fail(ErrorCode::Io, fmt::format("{}: {}", other_, std::strerror(error)));
      if (ready == 1) return {};
    }
    return late();
  }

 private:
  Result<std::size_t> take_some(std::span<std::byte> bytes) {
    for (;;) {
      const auto got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) return fail(ErrorCode::Io, other_ + ": it has closed the connection");
      RUBATO_TRY(await(POLLIN));
    }
  }
  tl::unexpected<Error> late() const {
    return fail(ErrorCode::Timeout,
                fmt::format("{}: nothing comes, or too slowly to be measured", other_));
  }

  Descriptor fd_;
  std::string other_;
  const std::stop_token& stop_;
};

Result<void> ask(End& end, char kind, std::uint64_t count = 0) {
  std::array<std::byte, kQuestionBytes> question{static_cast<std::byte>(kind)};
  std::memcpy(&question[1], &count, sizeof count);
  return end.send(question);
}

// Both latencies come out of each round trip.
Result<void> measure_latency(End& end, cluster::LinkModel& link) {
  std::vector<double> trips;
  const Instant until = steady_now() + kPingTime;
  while (trips.size() < kPings && (trips.size() < 3 || steady_now() < until)) {
    std::byte answer{};
    const Instant began = steady_now();
    RUBATO_TRY(ask(end, 'P'));
    RUBATO_TRY(end.take(std::span(&answer, 1)));
    trips.push_back((steady_now() - began).seconds());
    ::poll(nullptr, 0, static_cast<int>(kPingPause.ms()));
  }
  // Lognormal, as the model has it. A thread that wakes up late only adds to a trip, so the spread
  // is that of the faster half.
  std::ranges::sort(trips);
  const std::size_t half = trips.size() / 2;
  const double median = trips[half];
  double squares = 0;
  for (std::size_t i = 0; i < half; ++i) squares += std::pow(std::log(median / trips[i]), 2);
  const double variance = squares / static_cast<double>(half);
  link.latency_seconds = median * std::exp(variance / 2) / 2;
  link.jitter = std::sqrt(2 * (std::exp(variance) - 1));
  return {};
}

// Calls transfer(bytes) with more and more bytes. Returns: the rate of the last one.
template <class Transfer>
Result<double> measure_rate(Transfer transfer) {
  for (std::uint64_t bytes = kBytesMin;; bytes *= kGrowth) {
    const Instant began = steady_now();
    RUBATO_ASSIGN(const double rate, transfer(bytes));
    if (steady_now() - began >= kEnough || bytes >= kBytesMax) return rate;
  }
}

Result<void> greet(End& end, const std::string& endpoint) {
  std::array<std::byte, kGreeting.size()> answer{};
  RUBATO_TRY(end.send(kGreeting));
  RUBATO_TRY(end.take(answer));
  if (std::memcmp(answer.data(), kGreeting.data(), answer.size()) == 0) return {};
  return fail(
      ErrorCode::BadInput,
      fmt::format("{}: another program listens there, not rubato calibrate --listen", endpoint));
}

// Until the visitor leaves.
Result<void> answer(End& end) {
  std::array<std::byte, kGreeting.size()> greeting{};
  RUBATO_TRY(end.take(greeting));
  if (std::memcmp(greeting.data(), kGreeting.data(), greeting.size()) != 0)
    return fail(ErrorCode::BadInput, "a stranger");
  RUBATO_TRY(end.send(kGreeting));
  for (const Instant until = steady_now() + kVisitMax; steady_now() < until;) {
    std::array<std::byte, kQuestionBytes> question{};
    RUBATO_TRY(end.take(question));
    std::uint64_t count = 0;
    std::memcpy(&count, &question[1], sizeof count);
    const char kind = static_cast<char>(question[0]);
    if (count > kBytesMax) break;
    if (kind == 'P') {
      RUBATO_TRY(end.send(std::span(question).first(1)));
    } else if (kind == 'U') {
      RUBATO_ASSIGN(const double rate, end.take_many(count));
      RUBATO_TRY(end.send(std::as_bytes(std::span(&rate, 1))));
    } else if (kind == 'D') {
      RUBATO_TRY(end.send_many(count));
    } else {
      break;
    }
  }
  return {};
}

}  // namespace

Result<cluster::LinkModel> probe_link(const std::string& endpoint, const std::stop_token& stop) {
  RUBATO_ASSIGN(const proto::Address address, tcp::address_of(endpoint));
  Descriptor fd = tcp::make_socket(address.family(), tcp::Buffers::System);
  tcp::send_at_once(fd);
  const int connected = ::connect(fd.get(), address.get(), address.size);
  if (connected != 0 && errno != EINPROGRESS)
    return fail(ErrorCode::Io, fmt::format("{}: {}", endpoint, std::strerror(errno)));
  End end(std::move(fd), endpoint, stop);
  RUBATO_TRY(end.await(POLLOUT));
  RUBATO_TRY(greet(end, endpoint));
  cluster::LinkModel link;
  RUBATO_TRY(measure_latency(end, link));
  RUBATO_ASSIGN(link.up_bytes_per_second, measure_rate([&](std::uint64_t bytes) -> Result<double> {
                  double rate = 0;
                  RUBATO_TRY(ask(end, 'U', bytes));
                  RUBATO_TRY(end.send_many(bytes));
                  RUBATO_TRY(end.take(std::as_writable_bytes(std::span(&rate, 1))));
                  return rate;
                }));
  RUBATO_ASSIGN(link.down_bytes_per_second,
                measure_rate([&](std::uint64_t bytes) -> Result<double> {
                  RUBATO_TRY(ask(end, 'D', bytes));
                  return end.take_many(bytes);
                }));
  return link;
}

Result<LinkListener> LinkListener::open(const std::string& endpoint) {
  RUBATO_ASSIGN(auto listener, tcp::listen_at(endpoint, tcp::Buffers::System));
  return LinkListener(std::move(listener.fd), listener.port);
}

void LinkListener::run(const std::stop_token& stop) const {
  while (!stop.stop_requested()) {
    pollfd wait{fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(kTurn.ms())) != 1) continue;
    Descriptor fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) continue;
    tcp::send_at_once(fd);
    End end(std::move(fd), "a visitor", stop);
    (void)answer(end);  // it has left, or said something else: the next one may come
  }
}

}  // namespace rubato::emulation
