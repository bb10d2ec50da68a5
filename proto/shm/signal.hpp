// proto/shm/signal.hpp - how two transports agree over ZeroMQ to use shared memory.
// docs/protocol.md has the exchange. A signal is a transport's word to a transport: no core ever
// sees one. Pure, but for host_id() and new_token(). Errors: read_signal never trusts its input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rubato::proto::shm {

// Names one agreement: who presents it at the Unix socket is who made the offer.
struct Token {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Token&) const = default;
};
Token new_token();

enum class SignalKind : std::uint16_t {
  Offer = 1,    // connector: I am on `host`, and hear that you are there
  Answer = 2,   // listener: so am I; come to the Unix socket `address` with this token
  Decline = 3,  // listener: stay with TCP
  Switch = 4,   // either, as its last word over TCP: the next message is in shared memory
};

inline constexpr std::size_t kHostBytesMax = 64;
inline constexpr std::size_t kAddressBytesMax = 32;

struct Signal {
  SignalKind kind = SignalKind::Offer;
  Token token;
  std::string host;     // Offer
  std::string address;  // Answer
};

// Requires: texts within their limits.
std::vector<std::byte> write_signal(const Signal& signal);
// Returns nothing for what is no signal of this protocol version.
std::optional<Signal> read_signal(std::span<const std::byte> bytes);

// Processes that can share memory and Unix sockets have one id: of this boot of this kernel, and of
// the network namespace. Empty when unknown.
std::string host_id();

}  // namespace rubato::proto::shm
