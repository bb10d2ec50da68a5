#include "proto/zmq_transport.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/check.hpp"
#include "base/companion.hpp"
#include "base/log.hpp"
#include "base/log_limit.hpp"
#include "base/rng.hpp"
#include "proto/address.hpp"
#include "proto/awake_wait.hpp"
#include "proto/block_pool.hpp"
#include "proto/codec.hpp"
#include "proto/endpoint.hpp"
#include "proto/known_peers.hpp"
#include "proto/zmq_connections.hpp"
#include "proto/zmq_curve.hpp"
#include "proto/zmq_handshakes.hpp"

namespace rubato::proto {
namespace {

// Smaller payloads are copied: cheaper than an owner released on ZeroMQ's I/O thread.
constexpr std::size_t kZeroCopyBytesMin = 8 * 1024;
// Room for what CURVE adds to a part: ZeroMQ counts the encrypted one.
constexpr std::size_t kCurveBytes = 64;
// What it does add: a name, a nonce, a flag and the authenticator.
constexpr std::size_t kCurvePartBytes = 8 + 8 + 1 + 16;
// Messages received from one peer and not read yet; beyond them TCP holds the sender back.
constexpr int kReceiveQueueMax = 64;
// A connection whose other end is gone without a word is noticed by the kernel: an idle one is
// asked after 10 s and every 5 s, twice; bytes that nobody acknowledges for 20 s end it as well.
// The scheduler decides sooner who is a member. ZeroMQ's own heartbeats are answered only between
// frames, and start a timer of the kernel in every turn of its I/O thread.
// A link that was cut and is healed is used at the next try. TCP tries more and more rarely, half a
// minute apart after a minute. So both an old connection and a new one are given up before.
constexpr int kKeepaliveIdleSeconds = 10;
constexpr int kKeepaliveIntervalSeconds = 5;
constexpr int kKeepaliveCount = 2;
constexpr int kUnacknowledgedMs = 20'000;
constexpr int kConnectMs = 10'000;
// From the first byte to the end of a handshake.
constexpr int kHandshakeMs = 10'000;
constexpr int kReconnectMinMs = 100;
// How long and how often one address of several is tried before the next.
constexpr int kConnectOfSeveralMs = 2'000;
constexpr int kAttemptsOfSeveral = 2;
constexpr int kReconnectMaxMs = 5'000;

// With larger messages ZeroMQ's own threads have enough to do to keep the cores awake.
constexpr std::size_t kAwakeBytesMax = 512 * 1024;

// Large messages of one peer, with none of another between them, that are taken for a conversation.
constexpr std::uint64_t kInARowMin = 4;

// Longer waits end early, with nothing received.
constexpr Duration kWaitMax = Duration::from_seconds(24 * 3600);

// Targets of our connections are peers 1, 2, ...; peers of the listener are this bit plus the
// number that ROUTER gave them. 0 is nobody.
constexpr PeerId kListenerBit = PeerId{1} << 32;
constexpr PeerId kWaker = kListenerBit - 1;  // ourselves, from another thread
constexpr const char* kWakerEndpoint = "inproc://waker";

// How often failed handshakes are asked for.
constexpr Duration kHandshakesEvery = Duration::from_ms(100);

// ZeroMQ waits for whole milliseconds. What is shorter we wait for ourselves.
constexpr Duration kBlockMin = Duration::from_ms(1);

int whole_ms(Duration d) {
  const std::int64_t ms = d.ns / 1'000'000 + (d.ns % 1'000'000 > 0 ? 1 : 0);
  return static_cast<int>(std::clamp<std::int64_t>(ms, 0, std::numeric_limits<int>::max()));
}

void set_options(zmq::socket_t& socket, const ZmqOptions& options) {
  namespace opt = zmq::sockopt;
  socket.set(opt::sndhwm, static_cast<int>(kQueuedMessagesMax));
  socket.set(opt::rcvhwm, kReceiveQueueMax);
  socket.set(opt::maxmsgsize, static_cast<std::int64_t>(kPayloadBytesMax + kCurveBytes));
  socket.set(opt::sndtimeo, whole_ms(options.send_timeout));
  socket.set(opt::linger, whole_ms(options.linger));
  socket.set(opt::tcp_keepalive, 1);
  socket.set(opt::tcp_keepalive_idle, kKeepaliveIdleSeconds);
  socket.set(opt::tcp_keepalive_intvl, kKeepaliveIntervalSeconds);
  socket.set(opt::tcp_keepalive_cnt, kKeepaliveCount);
  socket.set(opt::tcp_maxrt, kUnacknowledgedMs);
  socket.set(opt::connect_timeout, kConnectMs);
  socket.set(opt::handshake_ivl, kHandshakeMs);
  socket.set(opt::reconnect_ivl, kReconnectMinMs);
  socket.set(opt::reconnect_ivl_max, kReconnectMaxMs);
  socket.set(opt::immediate, false);  // queue for a peer that is not there yet
}

// The endpoints that this one may stand for. A name with one address of IPv4 stays a name: ZeroMQ
// looks it up again at each attempt. It would use the first address alone.
std::vector<std::string> choices_of(const std::string& endpoint) {
  const auto target = read_endpoint(endpoint);
  if (!target) return {endpoint};
  const auto addresses = resolve_all(target->host, target->port);
  if (addresses.size() < 2 && (addresses.empty() || addresses[0].family() == AF_INET))
    return {endpoint};
  std::vector<std::string> all;
  for (const Address& each : addresses) all.push_back(Endpoint{each.host(), target->port}.text());
  return all;
}

// With IPv6 ZeroMQ would give a name's address of IPv6, where it has one of both, so that nodes
// that listen with IPv4 are not found.
bool is_ipv6(const std::string& endpoint) {
  return endpoint.find('[') != std::string::npos;
}

tl::unexpected<Error> endpoint_error(const char* verb, const std::string& endpoint,
                                     const zmq::error_t& error) {
  const bool usage = error.num() == EINVAL || error.num() == ENODEV;
  return fail(usage ? ErrorCode::BadInput : ErrorCode::Io,
              fmt::format("cannot {} {}: {}", verb, endpoint, error.what()));
}

Result<void> check_tcp_endpoint(const std::string& endpoint) {
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
  std::size_t bytes = 0;
  Connections::Unread unread;  // of its receiver; null: a connection of ours
  std::shared_ptr<Companion> io_thread;
  std::shared_ptr<UnderWay> self;  // until then
};

// The message holds the payload's owner until ZeroMQ has sent it.
zmq::message_t shared(const Payload& payload, Connections::Unread unread,
                      const std::shared_ptr<Companion>& io_thread,
                      const std::shared_ptr<BlockPool>& pool) {
  if (payload.size() < kZeroCopyBytesMin) return copied(payload.bytes());
  if (unread) *unread += payload.size();
  const auto under_way = std::allocate_shared<UnderWay>(
      BlockAllocator<UnderWay>(pool),
      UnderWay{payload.owner(), payload.size(), std::move(unread), io_thread, nullptr});
  zmq::message_t message(
      const_cast<std::byte*>(payload.bytes().data()), payload.size(),  // ZeroMQ only reads it
      [](void*, void* hint) {
        const auto sent = std::move(static_cast<UnderWay*>(hint)->self);
        if (sent->unread) *sent->unread -= sent->bytes;
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

// What the socket calls its peers.
class RoutingIds {
 public:
  // ROUTER's own for who reaches the listener: a zero byte and a 32-bit number.
  using Given = std::array<std::byte, 1 + sizeof(std::uint32_t)>;
  // Ours for a connection: no peer can guess the secret and take the id for itself.
  using Own = std::array<std::byte, 1 + 2 * sizeof(std::uint64_t)>;

  Own own(PeerId peer) const {
    Own id{std::byte{1}};
    std::memcpy(&id[1], &secret_, sizeof(secret_));
    std::memcpy(&id[1 + sizeof(secret_)], &peer, sizeof(peer));
    return id;
  }

  zmq::message_t of(PeerId peer) const {
    if ((peer & kListenerBit) == 0) return copied(own(peer));
    Given id{};
    const auto number = static_cast<std::uint32_t>(peer);
    std::memcpy(&id[1], &number, sizeof(number));
    return copied(id);
  }

  // Returns 0 for an id that the peer chose itself: no node of ours does.
  PeerId peer(const zmq::message_t& id) const {
    const auto* bytes = id.data<std::byte>();
    if (id.size() == sizeof(Given) && bytes[0] == std::byte{0}) {
      std::uint32_t number = 0;
      std::memcpy(&number, bytes + 1, sizeof(number));
      return kListenerBit | number;
    }
    if (id.size() != sizeof(Own)) return 0;
    PeerId peer = 0;
    std::memcpy(&peer, bytes + sizeof(Own) - sizeof(peer), sizeof(peer));
    return std::memcmp(bytes, own(peer).data(), sizeof(Own)) == 0 ? peer : 0;
  }

 private:
  std::uint64_t secret_ = os_random();
};

// One message, its sender's id first; parts beyond the third are counted and dropped.
struct Parts {
  std::array<zmq::message_t, 3> kept;
  std::size_t count = 0;
  std::size_t wire_bytes = 0;  // of those behind the id

  const zmq::message_t& id() const { return kept[0]; }
  const zmq::message_t& control() const { return kept[1]; }
};

// What is behind the id. It is there already: ZeroMQ delivers whole messages.
void receive_rest(zmq::socket_t& socket, Parts& parts) {
  bool more = parts.id().more();
  for (parts.count = 1; more; ++parts.count) {
    zmq::message_t dropped;
    zmq::message_t& part = parts.count < parts.kept.size() ? parts.kept[parts.count] : dropped;
    (void)socket.recv(part, zmq::recv_flags::dontwait);
    more = part.more();
    parts.wire_bytes += framed_bytes(part.size());
  }
}

// Of the connection that a message came by.
int descriptor_of(const zmq::message_t& part) {
  return zmq_msg_get(const_cast<zmq::message_t&>(part).handle(), ZMQ_SRCFD);  // it only reads
}

bool is_signal(const Parts& parts) {
  return parts.count == parts.kept.size() &&
         parts.control().to_string_view().starts_with(kSignalMagic);
}

Result<Message> message_of(PeerId from, Parts& parts, const std::shared_ptr<BlockPool>& pool) {
  if (from == 0) return fail(ErrorCode::Corrupt, "a peer with a routing id of its own choice");
  if (parts.count != parts.kept.size())
    return fail(ErrorCode::Corrupt,
                fmt::format("a message of {} parts instead of 2", parts.count - 1));
  const zmq::message_t& control = parts.control();
  return decode({control.data<std::byte>(), control.size()},
                received_payload(std::move(parts.kept[2]), pool));
}

}  // namespace

class ZmqTransport::Sockets {
 public:
  explicit Sockets(ZmqOptions options)
      : options_(std::move(options)),
        connections_in_(framed_bytes(kControlBytesMax + kCurvePartBytes) +
                            framed_bytes(options_.payload_bytes_max + kCurvePartBytes),
                        options_.peers) {}
  // The guard goes once nobody listens, and before the socket by which it wakes us.
  ~Sockets() {
    handshakes_.reset();
    router_.close();
    guard_.reset();
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  // ZeroMQ takes the keys that are set at the time of a bind or connect.
  std::string listen(const std::string& endpoint) {
    RUBATO_CHECK(!listening_, "listen() at most once");
    start();
    if (options_.keys) {
      guard_.emplace(context_, *options_.keys, [this] { wake(); });  // before anybody can come
      router_.set(zmq::sockopt::curve_server, true);
      router_.set(zmq::sockopt::curve_secretkey, options_.keys->secret_key);
    }
    router_.set(zmq::sockopt::ipv6, is_ipv6(endpoint));
    router_.bind(endpoint);
    listening_ = true;
    return router_.get(zmq::sockopt::last_endpoint);
  }

  PeerId connect(const std::string& endpoint, const std::string& public_key) {
    start();
    const std::string& key =
        public_key.empty() && options_.keys ? options_.keys->scheduler : public_key;
    const bool scheduler = options_.keys && key == options_.keys->scheduler;
    Target target{.endpoint = endpoint,
                  .who = !options_.keys ? "the node"
                         : scheduler    ? "the scheduler"
                                        : "the server",
                  .public_key = key,
                  .choices = choices_of(endpoint)};
    connect_chosen(target);
    targets_.push_back(std::move(target));
    return targets_.size();
  }

  // Returns false when the peer's queue is full. Throws when it is gone.
  bool send(PeerId to, std::span<const std::byte> control, const Payload& payload,
            zmq::send_flags flags) {
    using zmq::send_flags;
    if ((to & kListenerBit) != 0)
      flags = send_flags::dontwait;
    else if (to == 0 || to > targets_.size())
      throw zmq::error_t(EHOSTUNREACH);
    const auto unread = connections_in_.unread(to);
    // Only the id may wait or find the queue full; the others follow it.
    return router_.send(id_of(to), send_flags::sndmore | flags) &&
           router_.send(owned(control, unread), send_flags::sndmore | send_flags::dontwait) &&
           router_.send(shared(payload, unread, io_thread_, owners_), send_flags::dontwait);
  }

  // Ends the connection of a peer that asks and does not read. Returns: whether it does.
  bool drop_unread(Instant now, PeerId to, std::size_t most) {
    const auto unread = connections_in_.unread(to);
    if (!unread || *unread <= most) return false;
    say_cut(now, connections_in_.cut_off(to), "it does not read what it asks for");
    return true;
  }

  // A message, or that there is a reason to return without one: a wake() or a signal.
  struct News {
    std::optional<Received> message;
    bool interrupted = false;
  };

  // What is there, or comes within the whole milliseconds of `timeout`. The rest is wait()'s.
  News receive(Duration timeout) {
    start();
    const bool blocks = timeout >= kBlockMin && waits_[1].fd < 0;
    Parts parts;
    if (blocks ? !await(parts.kept[0], timeout) : !poll(parts.kept[0])) {
      connections_in_.on_empty();
      if (blocks) io_thread_->let_go();
      return {};
    }
    const Instant began = options_.trace ? steady_now() : Instant{};
    receive_rest(router_, parts);
    const PeerId from = peer_of(parts.id());
    if (from == kWaker) {
      wake_sent_ = false;
      return {.message = {}, .interrupted = true};
    }
    note_bytes(from, parts);
    auto peer = introduce(from, parts.kept[0]);
    if (!peer.heard) return {.message = {}, .interrupted = true};
    if (is_signal(parts)) {
      const zmq::message_t& signal = parts.control();
      if (options_.on_signal) options_.on_signal(from, {signal.data<std::byte>(), signal.size()});
      return {.message = {}, .interrupted = true};
    }
    if (parts.wire_bytes >= kZeroCopyBytesMin) note_sender(from);
    if (parts.wire_bytes > kAwakeBytesMax) wait_.forget();
    News news{.message = Received{from, message_of(from, parts, owners_), parts.wire_bytes,
                                  std::move(peer.who)}};
    if (options_.trace)
      options_.trace->span(Span::Receive, began, steady_now(), {.amount = parts.wire_bytes});
    return news;
  }

  // Waits for news of the socket. Returns false after `timeout`, a signal of the operating system
  // or news of the watched descriptor.
  // Requires: receive() has just found nothing. Then the socket has no event that its descriptor
  // will not announce (ZMQ_FD is edge-triggered); zmq_poll would ask it once more, and waits in
  // whole milliseconds.
  bool wait(Duration timeout) {
    const timespec limit{timeout.ns / 1'000'000'000, timeout.ns % 1'000'000'000};
    const int ready = ::ppoll(waits_.data(), waits_.size(), &limit, nullptr);
    if (ready == 0) io_thread_->let_go();
    return ready > 0 && waits_[1].revents == 0;
  }

  PeerInfo info_of(PeerId peer) const {
    if (!guard_ || (peer & kListenerBit) == 0) return {};
    auto who = known_.find(peer);
    return {.heard = who != nullptr, .who = std::move(who)};
  }

  // The next peer whose key was revoked.
  std::optional<Received> poll_revoked() {
    if (!guard_) return std::nullopt;
    ask_guard();
    auto revoked = known_.poll_revoked();
    if (!revoked) return std::nullopt;
    return Received{.from = revoked->peer,
                    .message = fail(ErrorCode::Gone, "its key was revoked"),
                    .identity = std::move(revoked->who),
                    .revoked = true};
  }

  // Errors: a connection of ours that cannot come about.
  Result<void> hear_handshakes(Instant now) {
    if (!handshakes_ || now < next_handshakes_) return {};
    next_handshakes_ = now + std::min(kHandshakesEvery, wait_max());
    handshakes_->hear(now);
    try_next_choices();
    while (const auto failure = handshakes_->poll()) RUBATO_TRY(on_failure(now, *failure));
    return {};
  }

  // Ends connections that hold too much.
  void look_at_connections(Instant now) {
    using Why = Connections::Cut::Why;
    for (const auto& cut : connections_in_.look(now)) {
      const char* const few = "descriptors are few: allow more (ulimit -n), ";
      say_cut(now, cut.address,
              cut.why == Why::Endless   ? std::string("a message without end")
              : cut.why == Why::Largest ? std::string("the largest of too many unfinished messages")
              : cut.why == Why::Silent  ? fmt::format("{}and it said nothing", few)
                                        : fmt::format("{}and it came last", few));
    }
  }

  // How long a wait may be.
  Duration wait_max() const {
    return connections_in_.pressed() ? Connections::kLookEvery : kWaitMax;
  }

  void watch(int descriptor) { waits_[1] = {descriptor, POLLIN, 0}; }

  void wake() {
    if (wake_sent_.exchange(true)) return;  // one is on its way
    const std::lock_guard lock(waking_);
    if (waker_) waker_.send(zmq::message_t(), zmq::send_flags::dontwait);
  }

 private:
  // Whom a connection of ours is to reach.
  struct Target {
    std::string endpoint;
    std::string who;
    std::string public_key;
    std::vector<std::string> choices;  // endpoints that it stands for; one is tried at a time
    std::size_t chosen = 0;
    std::uint64_t connection = 0;  // the one to `chosen`
  };

  // Requires: the target has no connection, or it has just ended.
  void connect_chosen(Target& target) {
    const std::string& endpoint = target.choices[target.chosen];
    if (options_.keys) {
      router_.set(zmq::sockopt::curve_publickey, options_.keys->own.public_key);
      router_.set(zmq::sockopt::curve_secretkey, options_.keys->secret_key);
      router_.set(zmq::sockopt::curve_serverkey, target.public_key);
    }
    router_.set(zmq::sockopt::connect_timeout,
                target.choices.size() > 1 ? kConnectOfSeveralMs : kConnectMs);
    router_.set(zmq::sockopt::connect_routing_id, zmq::buffer(ids_.own(connections_ + 1)));
    router_.set(zmq::sockopt::ipv6, is_ipv6(endpoint));
    router_.connect(endpoint);
    target.connection = ++connections_;
  }

  // What waits for a choice that does not answer is lost.
  void try_next_choices() {
    for (Target& target : targets_) {
      const std::string& tried = target.choices[target.chosen];
      if (target.choices.size() < 2 || handshakes_->failed_attempts(tried) < kAttemptsOfSeveral)
        continue;
      handshakes_->forget_attempts(tried);
      router_.disconnect(tried);
      target.chosen = (target.chosen + 1) % target.choices.size();
      if (target.chosen == 0) target.choices = choices_of(target.endpoint);
      connect_chosen(target);
    }
  }

  zmq::message_t id_of(PeerId peer) const {
    return ids_.of((peer & kListenerBit) != 0 ? peer : targets_[peer - 1].connection);
  }

  // A target that has changed its connection is the same peer.
  PeerId peer_of(const zmq::message_t& id) const {
    const PeerId found = ids_.peer(id);
    if (found == 0 || found == kWaker || (found & kListenerBit) != 0) return found;
    const auto target = std::ranges::find(targets_, found, &Target::connection);
    return target == targets_.end() ? 0 : static_cast<PeerId>(target - targets_.begin()) + 1;
  }

  // A copy of a control frame, which counts as unread if it is large.
  zmq::message_t owned(std::span<const std::byte> control, const Connections::Unread& unread) {
    if (control.size() < kZeroCopyBytesMin || !unread) return copied(control);
    const auto copy = std::make_shared<std::vector<std::byte>>(control.begin(), control.end());
    return shared(Payload::of(copy), unread, io_thread_, owners_);
  }

  // What a message of a peer of the listener took of its connection.
  void note_bytes(PeerId from, const Parts& parts) {
    if ((from & kListenerBit) == 0) return;
    if (!connections_in_.knows(from)) {
      handshakes_->hear(steady_now());  // the monitor told of the connection before it spoke
      connections_in_.on_peer(from, descriptor_of(parts.id()));
    }
    const std::size_t curve = options_.keys ? (parts.count - 1) * kCurvePartBytes : 0;
    connections_in_.on_message(from, parts.wire_bytes + curve);
  }

  void say_cut(Instant now, const std::string& address, const std::string& why) {
    if (address.empty()) return;
    const std::string line = fmt::format("cut off a peer at {}: {}", address, why);
    if (const auto left_out = said_.admit(now, line)) log_warning(line + more_text(*left_out));
  }

  // Takes over what has changed in the keys that are allowed.
  void ask_guard() {
    const auto generation = guard_->generation();
    if (generation == generation_) return;
    generation_ = generation;
    known_.allow(guard_->allowed());
  }

  // Who speaks, by the message's first part.
  PeerInfo introduce(PeerId from, zmq::message_t& id) {
    auto known = info_of(from);
    if (known.heard) return known;
    ask_guard();  // its key may have been allowed just now
    const char* user = zmq_msg_gets(id.handle(), "User-Id");
    if (user) known.who = known_.introduce(from, user);
    known.heard = known.who != nullptr;
    return known;
  }

  // Whom we tried to reach there: ZeroMQ says the address as it was given, or as it was resolved.
  std::string target(const std::string& address) const {
    const auto port = [](const std::string& at) { return at.substr(at.rfind(':') + 1); };
    const Target* found = nullptr;
    for (const Target& each : targets_)
      if (each.endpoint == address || each.choices[each.chosen] == address ||
          (!found && port(each.endpoint) == port(address)))
        found = &each;
    return found ? fmt::format("{} at {}", found->who, found->endpoint) : "the node at " + address;
  }

  Result<void> on_failure(Instant now, const HandshakeFailure& failure) {
    using Why = HandshakeFailure::Why;
    const bool outgoing = failure.why != Why::Stranger;
    const std::string who = outgoing ? target(failure.address) : std::string();
    const auto refused = [](std::string text) { return fail(ErrorCode::Refused, std::move(text)); };
    if (failure.why == Why::KeyRefused)
      return refused(
          fmt::format("{} does not accept this key: on its box run `rubato keys allow {}.pub`", who,
                      options_.keys->own.name));
    if (failure.why == Why::OtherMechanism && options_.keys)
      return refused(who + " has no keys: start it with --keys, or this node with --insecure");
    if (failure.why == Why::OtherMechanism)
      return refused(
          who +
          " asks for a key: run rubato keygen here and `rubato keys allow` on its box, and "
          "start this node with --keys");
    if (!options_.keys) return {};
    const auto left_out = said_.admit(now, who);
    if (!left_out) return {};
    log_warning(outgoing ? who +
                               " does not prove the key that it is known by; is this its address, "
                               "and is scheduler.pub of the scheduler that runs now?"
                         : "refused a connection without a key, or of a node that knows another "
                           "key of this one" +
                               more_text(*left_out));
    return {};
  }

  // At first use, and not before: ZeroMQ's threads run where their creator does then.
  void start() {
    if (router_) return;
    router_ = {context_, zmq::socket_type::router};
    set_options(router_, options_);
    handshakes_.emplace(context_, router_, connections_in_);
    router_.set(zmq::sockopt::router_mandatory, true);  // a peer that is gone is an error
    router_.bind(kWakerEndpoint);
    waits_[0] = {router_.get(zmq::sockopt::fd), POLLIN, 0};
    const std::lock_guard lock(waking_);
    waker_ = {context_, zmq::socket_type::dealer};
    waker_.set(zmq::sockopt::routing_id, zmq::buffer(ids_.own(kWaker)));
    waker_.connect(kWakerEndpoint);
    if (wake_sent_) waker_.send(zmq::message_t(), zmq::send_flags::dontwait);
  }

  bool poll(zmq::message_t& part) {
    return router_.recv(part, zmq::recv_flags::dontwait).has_value();
  }

  bool block(zmq::message_t& part, Duration timeout) {
    const int ms = static_cast<int>(timeout.ns / 1'000'000);
    if (std::exchange(receive_timeout_ms_, ms) != ms) router_.set(zmq::sockopt::rcvtimeo, ms);
    return router_.recv(part, zmq::recv_flags::none).has_value();
  }

  // Waits for the first part of a message, awake at first where that has paid.
  bool await(zmq::message_t& part, Duration timeout) {
    bool received = false;
    for (bool awake = wait_.begin(steady_now()); awake && !(received = poll(part));) {
      std::this_thread::yield();
      awake = wait_.stay(steady_now());
    }
    if (!received) received = block(part, timeout);
    const PeerId from = received ? peer_of(part) : 0;
    wait_.end(steady_now(), from == kWaker ? 0 : from);
    return received;
  }

  // With one peer, our thread and ZeroMQ's work in turns on the same bytes; with several both have
  // enough to do for a core of their own. A word from the scheduler in between changes nothing.
  void note_sender(PeerId from) {
    if (std::exchange(sender_, from) != from) {
      if (std::exchange(in_a_row_, 0) >= kInARowMin) io_thread_->let_go();
    }
    if (++in_a_row_ >= kInARowMin) io_thread_->follow();
  }

  ZmqOptions options_;
  RoutingIds ids_;
  std::shared_ptr<BlockPool> owners_ = std::make_shared<BlockPool>();  // of payloads
  std::shared_ptr<Companion> io_thread_ = std::make_shared<Companion>();
  zmq::context_t context_;
  std::optional<KeyGuard> guard_;  // of a listener with keys
  KnownPeers known_;               // who has reached it
  std::uint64_t generation_ = 0;   // of the guard's keys, as known_ has them
  zmq::socket_t router_;
  Connections connections_in_;  // of the listener
  std::optional<Handshakes> handshakes_;
  Instant next_handshakes_;
  std::vector<Target> targets_;  // peer N is the Nth
  LogLimit said_;                // of handshakes, by address
  bool listening_ = false;
  std::uint64_t connections_ = 0;  // that were begun; each has a routing id of its own
  AwakeWait wait_;
  int receive_timeout_ms_ = -1;  // ZeroMQ's own value: for ever
  std::mutex waking_;            // whose turn it is at waker_
  zmq::socket_t waker_;
  std::atomic<bool> wake_sent_ = false;
  PeerId sender_ = 0;           // of the last large message
  std::uint64_t in_a_row_ = 0;  // large messages of that one
  // router_ and the watched one. poll() passes over -1.
  std::array<pollfd, 2> waits_{pollfd{-1, POLLIN, 0}, pollfd{-1, POLLIN, 0}};
};

ZmqTransport::ZmqTransport(const ZmqOptions& options)
    : sockets_(std::make_unique<Sockets>(options)), trace_(options.trace) {}
ZmqTransport::~ZmqTransport() = default;

Result<std::string> ZmqTransport::listen(const std::string& endpoint) {
  RUBATO_TRY(check_tcp_endpoint(endpoint));
  try {
    return sockets_->listen(endpoint);
  } catch (const zmq::error_t& error) {
    return endpoint_error("listen on", endpoint, error);
  }
}

Result<PeerId> ZmqTransport::connect(const std::string& endpoint, const std::string& public_key) {
  RUBATO_TRY(check_tcp_endpoint(endpoint));
  try {
    return sockets_->connect(endpoint, public_key);
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
  if (!sockets_->info_of(to).heard && !std::holds_alternative<Refusal>(message.body))
    return fail(ErrorCode::Io, fmt::format("{} not sent: the peer's key is not allowed any more",
                                           body_name(message.body)));
  if (sockets_->drop_unread(steady_now(), to, unread_max(message)))
    return fail(ErrorCode::Io, kUnreadText);
  try {
    const auto flags = message.payload.empty() ? zmq::send_flags::dontwait : zmq::send_flags::none;
    if (sockets_->send(to, encoded.control, encoded.payload, flags)) return encoded.wire_bytes();
    return fail(ErrorCode::Io, fmt::format("{} not sent: the peer's queue of {} messages is full",
                                           body_name(message.body), kQueuedMessagesMax));
  } catch (const zmq::error_t& error) {
    return fail(ErrorCode::Io,
                fmt::format("{} not sent: {}", body_name(message.body), error.what()));
  }
}

Result<std::optional<Received>> ZmqTransport::receive(Duration timeout) {
  try {
    const Instant now = steady_now();
    RUBATO_TRY(sockets_->hear_handshakes(now));
    sockets_->look_at_connections(now);
    const Duration limit = std::min(timeout, sockets_->wait_max());
    const Instant deadline = now + limit;
    if (auto revoked = sockets_->poll_revoked()) return revoked;
    for (Duration left = limit;; left = deadline - steady_now()) {
      auto news = sockets_->receive(left);
      if (news.message || news.interrupted) return std::move(news.message);
      left = deadline - steady_now();
      if (left <= Duration{} || !sockets_->wait(left)) return std::nullopt;
    }
  } catch (const zmq::error_t& error) {
    if (error.num() == EINTR) return std::nullopt;
    return fail(ErrorCode::Io, fmt::format("cannot receive: {}", error.what()));
  }
}

bool ZmqTransport::signal(PeerId to, std::span<const std::byte> bytes) {
  if (!info_of(to).heard) return false;
  try {
    return sockets_->send(to, bytes, {}, zmq::send_flags::dontwait);
  } catch (const zmq::error_t&) {
    return false;
  }
}

ZmqTransport::PeerInfo ZmqTransport::info_of(PeerId peer) const {
  return sockets_->info_of(peer);
}

void ZmqTransport::watch(int descriptor) {
  sockets_->watch(descriptor);
}

void ZmqTransport::wake() {
  sockets_->wake();
}

}  // namespace rubato::proto
