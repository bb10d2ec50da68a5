#include "proto/zmq_handshakes.hpp"

#include <cstdint>
#include <cstring>
#include <utility>
#include <zmq.hpp>

namespace rubato::proto {
namespace {

constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kFailures = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr const char* kNewsEndpoint = "inproc://handshakes";
// A listener that ends may cut off one handshake, and its successor another. Then it speaks.
constexpr int kInARow = 4;

}  // namespace

struct Handshakes::Event {
  std::uint16_t number = 0;
  std::uint32_t value = 0;
  std::string address;
};

// The queue has no limit: ZeroMQ's I/O thread would wait for us where it is full.
Handshakes::Handshakes(zmq::context_t& context, zmq::socket_t& socket, Connections& connections)
    : socket_(socket),
      connections_(connections),
      news_(std::make_unique<zmq::socket_t>(context, zmq::socket_type::pair)) {
  if (zmq_socket_monitor(socket.handle(), kNewsEndpoint, kEvents) != 0) throw zmq::error_t();
  news_->set(zmq::sockopt::rcvhwm, 0);
  news_->set(zmq::sockopt::linger, 0);
  news_->connect(kNewsEndpoint);
}

// In this order: with nobody to hear the news the I/O thread would wait for ever.
Handshakes::~Handshakes() {
  zmq_socket_monitor(socket_.handle(), nullptr, 0);
}

std::optional<HandshakeFailure> Handshakes::poll() {
  if (failures_.empty()) return std::nullopt;
  HandshakeFailure next = std::move(failures_.front());
  failures_.pop_front();
  return next;
}

int Handshakes::failed_attempts(const std::string& endpoint) const {
  const auto found = retried_.find(endpoint);
  return found == retried_.end() ? 0 : found->second;
}

void Handshakes::hear(Instant now) {
  while (true) {
    zmq::message_t head, address;
    if (!news_->recv(head, zmq::recv_flags::dontwait)) return;
    if (!head.more() || !news_->recv(address, zmq::recv_flags::dontwait)) return;
    Event event;
    if (head.size() != sizeof(event.number) + sizeof(event.value)) continue;
    std::memcpy(&event.number, head.data(), sizeof(event.number));
    std::memcpy(&event.value, head.data<std::byte>() + sizeof(event.number), sizeof(event.value));
    event.address = address.to_string();
    if (auto failure = take(event, now)) failures_.push_back(std::move(*failure));
  }
}

// What fails says why first, and then ends with its descriptor.
std::optional<HandshakeFailure> Handshakes::take(const Event& event, Instant now) {
  const int descriptor = static_cast<int>(event.value);
  if ((event.number & kFailures) != 0) {
    failure_ = std::make_unique<Event>(event);
  } else if (event.number == ZMQ_EVENT_CONNECTED) {
    peers_[descriptor] = {false, event.address};
  } else if (event.number == ZMQ_EVENT_ACCEPTED) {
    peers_[descriptor] = {true, {}};
    connections_.on_accepted(descriptor, now);
  } else if (event.number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
    ended_by_peer_.erase(event.address);
    retried_.erase(event.address);
  } else if (event.number == ZMQ_EVENT_CONNECT_RETRIED) {
    ++retried_[event.address];
  } else if (event.number == ZMQ_EVENT_DISCONNECTED) {
    connections_.on_ended(descriptor);
    const auto peer = peers_.extract(descriptor);
    const auto failure = std::exchange(failure_, nullptr);
    if (failure && peer) return failed(peer.mapped(), *failure);
  }
  return std::nullopt;
}

std::optional<HandshakeFailure> Handshakes::failed(const Peer& peer, const Event& event) {
  using Why = HandshakeFailure::Why;
  const bool key_refused = event.number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (peer.reached_us) {
    // The guard has said so, or the other end went away: somebody looked whether we are here.
    if (key_refused || event.number == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) return std::nullopt;
    return HandshakeFailure{Why::Stranger, {}};
  }
  if (key_refused) return HandshakeFailure{Why::KeyRefused, peer.address};
  if (event.number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
      event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
    return HandshakeFailure{Why::OtherMechanism, peer.address};
  if (++ended_by_peer_[peer.address] % kInARow != 0) return std::nullopt;
  return HandshakeFailure{Why::Unproved, peer.address};
}

}  // namespace rubato::proto
