#include "proto/shm/transport.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/shareable.hpp"
#include "proto/codec.hpp"

namespace rubato::proto {
namespace {

// Shared memory is read first, but every so often TCP: a busy neighbour hides no Stop.
constexpr unsigned kTurnsOfShm = 16;
constexpr Duration kWaitMax = Duration::from_seconds(24 * 3600);

void wait_for(int descriptor, Duration timeout) {
  pollfd wait{descriptor, POLLIN, 0};
  const timespec limit{timeout.ns / 1'000'000'000, timeout.ns % 1'000'000'000};
  (void)::ppoll(&wait, 1, &limit, nullptr);
}

}  // namespace

ShmTransport::ShmTransport(const ShmOptions& options)
    : options_(options),
      links_(options.host,
             [this](PeerId to, const shm::Signal& signal) {
               return zmq_.signal(to, shm::write_signal(signal));
             }),
      zmq_({options.send_timeout, options.linger,
            [this](PeerId from, std::span<const std::byte> bytes) {
              links_.on_signal(from, bytes, steady_now());
            },
            options.trace, options.keys, options.payload_bytes_max, options.peers}) {
  if (!options_.host.empty()) start_sharing();
}

// What still waits for room is written while the peers read, as ZeroMQ does for its own.
ShmTransport::~ShmTransport() {
  const Instant deadline = steady_now() + options_.linger;
  while (links_.unsent()) {
    const Instant now = steady_now();
    if (now >= deadline) break;
    wait_for(links_.descriptor(), deadline - now);
    links_.service(now);
  }
}

Result<std::string> ShmTransport::listen(const std::string& endpoint) {
  RUBATO_ASSIGN(std::string bound, zmq_.listen(endpoint));
  if (!options_.host.empty()) links_.listen();
  return bound;
}

Result<PeerId> ShmTransport::connect(const std::string& endpoint, const std::string& public_key) {
  RUBATO_ASSIGN(const PeerId peer, zmq_.connect(endpoint, public_key));
  connections_.emplace(peer, endpoint);
  return peer;
}

Result<std::size_t> ShmTransport::send(PeerId to, const Message& message) {
  if (links_.idle()) return zmq_.send(to, message);
  const Instant start = steady_now();
  links_.service(start);  // one that never receives learns here that its peer is gone
  shm::Link* link = links_.outgoing(to);
  if (!link || !zmq_.info_of(to).heard) return zmq_.send(to, message);
  Encoded encoded = [&] {
    const TraceSpan span(message.payload.empty() ? nullptr : options_.trace, Span::Serialize,
                         {.amount = message.payload.size()});
    return encode(message, PayloadChecksum::Skip);
  }();
  RUBATO_TRY(encoded.check_limits());
  const std::size_t wire_bytes = encoded.wire_bytes();
  const bool waits = !link->listening && !message.payload.empty();
  const Instant deadline = waits ? start + options_.send_timeout : start;
  for (Instant now = start;; now = steady_now()) {
    if (links_.send(*link, encoded, unread_max(message))) return wire_bytes;
    if (link->closed) return fail(ErrorCode::Io, kUnreadText);
    if (now >= deadline) break;
    wait_for(links_.descriptor(), deadline - now);
    links_.service(now);
    link = links_.outgoing(to);
    if (!link) return zmq_.send(to, message);
  }
  return fail(ErrorCode::Io, fmt::format("{} not sent: the peer's queue of {} messages is full",
                                         body_name(message.body), kQueuedMessagesMax));
}

Result<std::optional<Received>> ShmTransport::receive(Duration timeout) {
  const Instant deadline = steady_now() + std::min(timeout, kWaitMax);
  for (Duration left = timeout;; left = deadline - steady_now()) {
    // Until there are links the transports below need not take turns.
    auto received = links_.idle() ? receive_over_tcp(left) : receive_over_either(left);
    if (!received || *received || woken_.exchange(false) || steady_now() >= deadline)
      return received;
  }
}

Result<std::optional<Received>> ShmTransport::receive_over_either(Duration timeout) {
  if (timeout <= AwakeWait::kShort) return look_and_sleep(timeout, false);
  // What waits for room goes on by news of the sockets, which only a sleeper hears.
  const bool awake = wait_.begin(steady_now()) && !links_.unsent();
  auto received = look_and_sleep(timeout, awake);
  wait_.end(steady_now(), received && *received ? (*received)->from : 0);
  return received;
}

Result<std::optional<Received>> ShmTransport::look_and_sleep(Duration timeout, bool awake) {
  if (++turn_ % kTurnsOfShm != 0)
    if (auto received = receive_over_shm()) return received;
  links_.service(steady_now());
  while (true) {
    RUBATO_ASSIGN(auto received, receive_over_tcp({}));
    if (!received) received = receive_over_shm();
    if (received || woken_ || timeout <= Duration{}) return received;
    if (!awake) break;
    std::this_thread::yield();
    awake = wait_.stay(steady_now());
  }
  std::optional<Received> received;
  if (!links_.sleep()) {
    RUBATO_ASSIGN(received, receive_over_tcp(timeout));
  }
  links_.awake();
  return received;
}

std::optional<Received> ShmTransport::receive_over_shm() {
  const Instant began = options_.trace ? steady_now() : Instant{};
  auto received = links_.receive();
  if (!received) return received;
  if (options_.trace)
    options_.trace->span(Span::Receive, began, steady_now(), {.amount = received->wire_bytes});
  auto peer = zmq_.info_of(received->from);
  if (!peer.heard) return std::nullopt;
  received->identity = std::move(peer.who);
  return received;
}

// A message of a listener that we connected to shows that it is there: time for an offer.
Result<std::optional<Received>> ShmTransport::receive_over_tcp(Duration timeout) {
  zmq_.watch(links_.idle() ? -1 : links_.descriptor());
  auto received = zmq_.receive(timeout);
  if (!received || !*received) return received;
  const auto connection = connections_.find((*received)->from);
  if (connection != connections_.end())
    links_.heard(connection->first, connection->second, steady_now());
  return received;
}

void ShmTransport::wake() {
  woken_ = true;
  zmq_.wake();
}

}  // namespace rubato::proto
