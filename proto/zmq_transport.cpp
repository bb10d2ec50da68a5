#include "proto/zmq_transport.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/check.hpp"
#include "base/companion.hpp"
#include "proto/block_pool.hpp"
#include "proto/codec.hpp"

namespace rubato::proto {
namespace {

// Smaller payloads are copied: cheaper than an owner released on ZeroMQ's I/O thread.
constexpr std::size_t kZeroCopyBytesMin = 8 * 1024;
// Messages received from one peer and not read yet; beyond them TCP holds the sender back.
constexpr int kReceiveQueueMax = 64;
// A connection whose other end is gone without a word is noticed by the kernel: an idle one is
// asked after 10 s and every 10 s, five times; bytes that nobody acknowledges for 60 s end it as
// well. Who is a member is decided by the scheduler, sooner. ZeroMQ's own heartbeats are answered
// only between frames, and start a timer of the kernel in every turn of its I/O thread.
constexpr int kKeepaliveIdleSeconds = 10;
constexpr int kKeepaliveIntervalSeconds = 10;
constexpr int kKeepaliveCount = 5;
constexpr int kUnacknowledgedMs = 60'000;
constexpr int kReconnectMinMs = 100;
constexpr int kReconnectMaxMs = 5'000;

// Messages of one peer, with none of another between them, that are taken for a conversation.
constexpr std::uint64_t kInARowMin = 4;

// Longer waits end early, with nothing received.
constexpr Duration kWaitMax = Duration::from_seconds(24 * 3600);

// Outgoing connections are peers 1, 2, ...; peers of the listener are this bit plus the number that
// ROUTER gave them. 0 is nobody.
constexpr PeerId kListenerBit = PeerId{1} << 32;
constexpr std::size_t kRoutingIdBytes = 5;  // a zero byte and a 32-bit number

int whole_ms(Duration d) {
  const std::int64_t ms = d.ns / 1'000'000 + (d.ns % 1'000'000 > 0 ? 1 : 0);
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, std::numeric_limits<int>::max()));
}

void set_options(zmq::socket_t& socket, const ZmqOptions& options) {
  namespace opt = zmq::sockopt;
  socket.set(opt::sndhwm, static_cast<int>(kQueuedMessagesMax));
  socket.set(opt::rcvhwm, kReceiveQueueMax);
  socket.set(opt::maxmsgsize, static_cast<std::int64_t>(kPayloadBytesMax));
  socket.set(opt::sndtimeo, whole_ms(options.send_timeout));
  socket.set(opt::linger, whole_ms(options.linger));
  socket.set(opt::tcp_keepalive, 1);
  socket.set(opt::tcp_keepalive_idle, kKeepaliveIdleSeconds);
  socket.set(opt::tcp_keepalive_intvl, kKeepaliveIntervalSeconds);
  socket.set(opt::tcp_keepalive_cnt, kKeepaliveCount);
  socket.set(opt::tcp_maxrt, kUnacknowledgedMs);
  socket.set(opt::reconnect_ivl, kReconnectMinMs);
  socket.set(opt::reconnect_ivl_max, kReconnectMaxMs);
  socket.set(opt::immediate, false);  // queue for a peer that is not there yet
  socket.set(opt::ipv6, false);
}

tl::unexpected<Error> endpoint_error(const char* verb, const std::string& endpoint,
                                     const zmq::error_t& error) {
  const bool usage = error.num() == EINVAL || error.num() == ENODEV;
  return fail(usage ? ErrorCode::BadInput : ErrorCode::Io,
              fmt::format("cannot {} {}: {}", verb, endpoint, error.what()));
}

Result<void> check_endpoint(const std::string& endpoint) {
  if (endpoint.starts_with("tcp://")) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("endpoint '{}' is not of the form tcp://HOST:PORT", endpoint));
}

zmq::message_t copied(std::span<const std::byte> bytes) {
  return {bytes.data(), bytes.size()};
}

// What a payload on its way keeps alive. It is released on ZeroMQ's I/O thread, which so makes
// itself known.
struct UnderWay {
  std::shared_ptr<const void> owner;
  std::shared_ptr<Companion> io_thread;
  std::shared_ptr<UnderWay> self;  // until then
};

// The message holds the payload's owner until ZeroMQ has sent it.
zmq::message_t shared(const Payload& payload, const std::shared_ptr<Companion>& io_thread,
                      const std::shared_ptr<BlockPool>& pool) {
  if (payload.size() < kZeroCopyBytesMin) return copied(payload.bytes());
  const auto under_way = std::allocate_shared<UnderWay>(
      BlockAllocator<UnderWay>(pool), UnderWay{payload.owner(), io_thread, nullptr});
  zmq::message_t message(
      const_cast<std::byte*>(payload.bytes().data()), payload.size(),  // ZeroMQ only reads it
      [](void*, void* hint) {
        const auto sent = std::move(static_cast<UnderWay*>(hint)->self);
        sent->io_thread->is_me();
      },
      under_way.get());
  under_way->self = under_way;
  return message;
}

Payload received_payload(zmq::message_t part, const std::shared_ptr<BlockPool>& pool) {
  const auto owner =
      std::allocate_shared<zmq::message_t>(BlockAllocator<zmq::message_t>(pool), std::move(part));
  return {owner, {owner->data<std::byte>(), owner->size()}};
}

zmq::message_t routing_id(PeerId peer) {
  std::array<std::byte, kRoutingIdBytes> id{};
  const auto number = static_cast<std::uint32_t>(peer);
  std::memcpy(id.data() + 1, &number, sizeof(number));
  return copied(id);
}

// Returns 0 for an id that the peer chose itself: no node of ours does.
PeerId peer_of(const zmq::message_t& id) {
  if (id.size() != kRoutingIdBytes || *id.data<std::byte>() != std::byte{0}) return 0;
  std::uint32_t number = 0;
  std::memcpy(&number, id.data<std::byte>() + 1, sizeof(number));
  return kListenerBit | number;
}

// One multipart message; parts beyond the third are counted and dropped.
struct Parts {
  std::array<zmq::message_t, 3> kept;
  std::size_t count = 0;
  std::size_t wire_bytes = 0;
};

bool receive_parts(zmq::socket_t& socket, Parts& parts) {
  bool more = true;
  while (more) {
    zmq::message_t dropped;
    zmq::message_t& part = parts.count < parts.kept.size() ? parts.kept[parts.count] : dropped;
    // Parts after the first are there already: ZeroMQ delivers whole messages.
    if (!socket.recv(part, zmq::recv_flags::dontwait)) return false;
    more = part.more();
    parts.wire_bytes += framed_bytes(part.size());
    ++parts.count;
  }
  return true;
}

Result<Message> message_of(Parts& parts, std::size_t first,
                           const std::shared_ptr<BlockPool>& pool) {
  if (parts.count != first + 2)
    return fail(ErrorCode::Corrupt,
                fmt::format("a message of {} parts instead of 2", parts.count - first));
  const zmq::message_t& control = parts.kept[first];
  return decode({control.data<std::byte>(), control.size()},
                received_payload(std::move(parts.kept[first + 1]), pool));
}

bool is_signal(const Parts& parts, std::size_t first) {
  return parts.count == first + 2 && parts.kept[first].to_string_view().starts_with(kSignalMagic);
}

}  // namespace

class ZmqTransport::Sockets {
 public:
  explicit Sockets(ZmqOptions options)
      : options_(std::move(options)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    RUBATO_CHECK(wake_ >= 0, "the process may open one more file");
    waits_.push_back({wake_, POLLIN, 0});
    waits_.push_back({-1, POLLIN, 0});  // poll() passes over it
  }
  ~Sockets() { ::close(wake_); }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  std::string listen(const std::string& endpoint) {
    RUBATO_CHECK(!router_, "listen() at most once");
    zmq::socket_t socket(context_, zmq::socket_type::router);
    set_options(socket, options_);
    socket.set(zmq::sockopt::router_mandatory, true);  // a peer that is gone is an error
    socket.bind(endpoint);
    waits_.push_back({socket.get(zmq::sockopt::fd), POLLIN, 0});
    router_ = std::move(socket);
    return router_.get(zmq::sockopt::last_endpoint);
  }

  PeerId connect(const std::string& endpoint) {
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    set_options(socket, options_);
    socket.connect(endpoint);
    waits_.push_back({socket.get(zmq::sockopt::fd), POLLIN, 0});
    dealers_.push_back(std::move(socket));
    return dealers_.size();
  }

  // Returns false when the peer's queue is full. Throws when it is gone.
  bool send(PeerId to, std::span<const std::byte> control, const Payload& payload,
            zmq::send_flags flags = zmq::send_flags::none) {
    using zmq::send_flags;
    zmq::socket_t* socket = nullptr;
    if (router_ && (to & kListenerBit) != 0) {
      if (!router_.send(routing_id(to), send_flags::sndmore | send_flags::dontwait)) return false;
      socket = &router_;
    } else if (to >= 1 && to <= dealers_.size()) {
      socket = &dealers_[to - 1];
    } else {
      throw zmq::error_t(EHOSTUNREACH);
    }
    // Only the first part of a message may wait or find the queue full; the others follow it.
    return socket->send(copied(control), send_flags::sndmore | flags) &&
           socket->send(shared(payload, io_thread_, owners_), send_flags::dontwait);
  }

  // One message of whichever socket has one, asking the sockets in turn.
  std::optional<Received> poll_once() {
    auto received = next_message();
    if (received) note_sender(received->from);
    return received;
  }

  std::optional<Received> next_message() {
    const std::size_t sockets = dealers_.size() + (router_ ? 1 : 0);
    for (std::size_t i = 0; i < sockets; ++i) {
      const std::size_t index = (next_ + i) % sockets;
      const bool listener = index == dealers_.size();
      Parts parts;
      if (!receive_parts(listener ? router_ : dealers_[index], parts)) continue;
      next_ = index + 1;
      if (is_signal(parts, listener ? 1 : 0)) {
        const zmq::message_t& signal = parts.kept[listener ? 1 : 0];
        signal_ = {signal.data<std::byte>(), signal.data<std::byte>() + signal.size()};
        signal_from_ = listener ? peer_of(parts.kept[0]) : index + 1;
        return std::nullopt;
      }
      if (!listener) return Received{index + 1, message_of(parts, 0, owners_), parts.wire_bytes};
      const PeerId from = peer_of(parts.kept[0]);
      const std::size_t wire_bytes = parts.wire_bytes - framed_bytes(parts.kept[0].size());
      if (from == 0)
        return Received{0, fail(ErrorCode::Corrupt, "a peer with a routing id of its own choice"),
                        wire_bytes};
      return Received{from, message_of(parts, 1, owners_), wire_bytes};
    }
    return std::nullopt;
  }

  // Hands over the signal, if one ended the last poll_once().
  bool take_signal() {
    if (signal_.empty()) return false;
    if (options_.on_signal) options_.on_signal(signal_from_, signal_);
    signal_.clear();
    return true;
  }
  bool ends_at_signals() const { return options_.on_signal != nullptr; }

  // Waits for news of any socket. Returns false after `timeout`, wake(), a signal
  // of the operating system or news of the watched descriptor.
  // Requires: poll_once() has just found nothing. Then no socket has an event that its descriptor
  // will not announce (ZMQ_FD is edge-triggered); zmq_poll would ask each of them once more, and
  // waits in whole milliseconds.
  bool wait(Duration timeout) {
    const timespec limit{timeout.ns / 1'000'000'000, timeout.ns % 1'000'000'000};
    const int ready = ::ppoll(waits_.data(), waits_.size(), &limit, nullptr);
    if (ready == 0) io_thread_->let_go();
    if (ready <= 0) return false;
    const bool watched = waits_[1].revents != 0;
    if (!watched && in_a_row_ >= kInARowMin) io_thread_->follow();
    if (waits_.front().revents != 0) {
      std::uint64_t wakes = 0;
      (void)!::read(wake_, &wakes, sizeof(wakes));
      return false;
    }
    return !watched;
  }

  void watch(int descriptor) { waits_[1].fd = descriptor; }

  void wake() {
    const std::uint64_t one = 1;
    (void)!::write(wake_, &one, sizeof(one));  // fails only when a wake is pending already
  }

 private:
  // With one peer, our thread and ZeroMQ's work in turns on the same bytes; with several both have
  // enough to do for a core of their own.
  void note_sender(PeerId from) {
    if (std::exchange(sender_, from) == from) {
      ++in_a_row_;
    } else if (std::exchange(in_a_row_, 1) >= kInARowMin) {
      io_thread_->let_go();
    }
  }

  ZmqOptions options_;
  int wake_;  // eventfd: the one thing that other threads touch
  std::shared_ptr<BlockPool> owners_ = std::make_shared<BlockPool>();  // of payloads
  std::shared_ptr<Companion> io_thread_ = std::make_shared<Companion>();
  zmq::context_t context_;
  zmq::socket_t router_;
  std::vector<zmq::socket_t> dealers_;
  std::size_t next_ = 0;        // the socket to ask first
  PeerId sender_ = 0;           // of the last message
  std::uint64_t in_a_row_ = 0;  // messages of that one
  std::vector<std::byte> signal_;
  PeerId signal_from_ = 0;
  std::vector<pollfd> waits_;  // wake_, the watched one and every socket's ZMQ_FD
};

ZmqTransport::ZmqTransport(const ZmqOptions& options)
    : sockets_(std::make_unique<Sockets>(options)), trace_(options.trace) {}
ZmqTransport::~ZmqTransport() = default;

Result<std::string> ZmqTransport::listen(const std::string& endpoint) {
  RUBATO_TRY(check_endpoint(endpoint));
  try {
    return sockets_->listen(endpoint);
  } catch (const zmq::error_t& error) {
    return endpoint_error("listen on", endpoint, error);
  }
}

Result<PeerId> ZmqTransport::connect(const std::string& endpoint) {
  RUBATO_TRY(check_endpoint(endpoint));
  try {
    return sockets_->connect(endpoint);
  } catch (const zmq::error_t& error) {
    return endpoint_error("connect to", endpoint, error);
  }
}

Result<std::size_t> ZmqTransport::send(PeerId to, const Message& message) {
  const Encoded encoded = [&] {
    // Of a message without payload it is too short to be of interest.
    const TraceSpan span(message.payload.empty() ? nullptr : trace_, Span::Serialize,
                         {.amount = message.payload.size()});
    return encode(message);
  }();
  RUBATO_TRY(encoded.check_limits());
  try {
    if (sockets_->send(to, encoded.control, encoded.payload)) return encoded.wire_bytes();
    return fail(ErrorCode::Io, fmt::format("{} not sent: the peer's queue of {} messages is full",
                                           body_name(message.body), kQueuedMessagesMax));
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::Io,
                fmt::format("{} not sent: {}", body_name(message.body), error.what()));
  }
}

Result<std::optional<Received>> ZmqTransport::receive(Duration timeout) {
  try {
    const Instant deadline = steady_now() + std::min(timeout, kWaitMax);
    while (true) {
      const Instant began = trace_ ? steady_now() : Instant{};
      if (auto received = sockets_->poll_once()) {
        if (trace_)
          trace_->span(Span::Receive, began, steady_now(), {.amount = received->wire_bytes});
        return received;
      }
      if (sockets_->take_signal()) {
        if (sockets_->ends_at_signals()) return std::nullopt;
        continue;
      }
      const Duration left = deadline - steady_now();
      if (left <= Duration{} || !sockets_->wait(left)) return std::nullopt;
    }
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::Io, fmt::format("cannot receive: {}", error.what()));
  }
}

bool ZmqTransport::signal(PeerId to, std::span<const std::byte> bytes) {
  try {
    return sockets_->send(to, bytes, {}, zmq::send_flags::dontwait);
  } catch (const zmq::error_t&) {
    return false;
  }
}

void ZmqTransport::watch(int descriptor) {
  sockets_->watch(descriptor);
}

void ZmqTransport::wake() {
  sockets_->wake();
}

}  // namespace rubato::proto
