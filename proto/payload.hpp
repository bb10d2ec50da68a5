// proto/payload.hpp - bytes with a shared owner: a received frame, or a slice of an update buffer.
// Copying a Payload copies a pointer, never the bytes. What is known of the bytes travels along, so
// that nobody reads them once more to find out. Threads: the bytes are immutable while any Payload
// refers to them; the owner may be released on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace rubato::proto {

class Payload {
 public:
  Payload() = default;
  // Lifetime: `owner` keeps `bytes` alive.
  Payload(std::shared_ptr<const void> owner, std::span<const std::byte> bytes)
      : owner_(std::move(owner)), bytes_(bytes) {}

  // A view of the elements of a vector, which the payload keeps alive.
  template <class Vector>
  static Payload of(std::shared_ptr<Vector> values) {
    const auto bytes = std::as_bytes(std::span(*values));
    return {std::move(values), bytes};
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // What is known of the bytes; absent: nobody has looked. Facts of this process, not claims of a
  // peer. Requires: true of the bytes for as long as any Payload refers to them.
  void set_checksum(std::uint64_t checksum) { checksum_ = checksum; }  // base/checksum.hpp
  void set_largest(float largest) { largest_ = largest; }  // as float32: largest_magnitude()
  const std::optional<std::uint64_t>& checksum() const { return checksum_; }
  const std::optional<float>& largest() const { return largest_; }

  // Another process can change the bytes at any time. Nobody may look at them twice and take them
  // for the same.
  void set_shared() { shared_ = true; }
  bool shared() const { return shared_; }

  // Requires: offset + size within bytes(). Nothing but shared() is known of a slice.
  Payload slice(std::size_t offset, std::size_t size) const;

  // The bytes as float32. Received memory has no alignment promise, so this is the only way to
  // typed data: in place when aligned, else through `scratch` (resized). size() must be 4 n.
  std::span<const float> floats(std::vector<float>& scratch) const;

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> bytes_;
  std::optional<std::uint64_t> checksum_;
  std::optional<float> largest_;
  bool shared_ = false;
};

}  // namespace rubato::proto
