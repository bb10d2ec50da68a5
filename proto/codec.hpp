// proto/codec.hpp - messages to wire frames and back: one control frame (prefix with the protocol
// version and a checksum, then a verified FlatBuffer) and one raw little-endian payload frame.
// docs/protocol.md is the spec.
// Pure. Errors: decode never trusts its input; every failure is a Result with one line.
// Threads: any; each keeps its own scratch buffer.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "proto/messages.hpp"

namespace rubato::proto {

inline constexpr std::size_t kControlBytesMax = 256 * 1024;  // Members of 16,000 workers fits
inline constexpr std::size_t kPayloadBytesMax = 16u << 20;
inline constexpr std::size_t kTextBytesMax = 1024;  // each string but Hello.settings

// The bytes of a control frame; those of the parameter path need no memory of their own.
class ControlFrame {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): whoever asks for bytes fills them
  explicit ControlFrame(std::size_t size) : size_(size) {
    if (size > small_.size()) large_.resize(size);
  }
  std::byte* data() { return size_ > small_.size() ? large_.data() : small_.data(); }
  const std::byte* data() const { return size_ > small_.size() ? large_.data() : small_.data(); }
  std::size_t size() const { return size_; }
  std::byte& operator[](std::size_t i) { return data()[i]; }
  std::byte* begin() { return data(); }
  std::byte* end() { return data() + size_; }
  const std::byte* begin() const { return data(); }
  const std::byte* end() const { return data() + size_; }

 private:
  std::size_t size_;
  std::array<std::byte, 248> small_;
  std::vector<std::byte> large_;
};

struct Encoded {
  ControlFrame control{0};
  Payload payload;
  // What this message costs on a link: both frames and ZeroMQ's framing of them.
  std::size_t wire_bytes() const;
  // BadInput when a frame is above its limit: every receiver would refuse it.
  [[nodiscard]] Result<void> check_limits() const;
};

// ZeroMQ's cost of a frame (ZMTP 3.1): a flag byte and a length of 1 byte, or 8 above 255 bytes.
constexpr std::size_t framed_bytes(std::size_t bytes) {
  return bytes + (bytes > 255 ? 9 : 2);
}

// Payloads are checksummed against a flipped bit on a network; memory of one host needs none.
enum class PayloadChecksum { Verify, Skip };

// Texts for people (Refusal, Leave, Stop) are cut to kTextBytesMax. Of the offsets
// of missing chunks the first kMissingOffsetsMax are sent; the next probe asks for the rest.
Encoded encode(const Message& message, PayloadChecksum checksum = PayloadChecksum::Verify);

// Returns: the message; Refused when the protocol version differs (the text names both), Corrupt
// for everything else that is wrong. Lifetime: the message keeps `payload` alive, not `control`.
[[nodiscard]] Result<Message> decode(std::span<const std::byte> control, Payload payload,
                                     PayloadChecksum checksum = PayloadChecksum::Verify);

}  // namespace rubato::proto
