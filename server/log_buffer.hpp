// server/log_buffer.hpp - the bytes of a log in memory, so that a disk takes them as they lie
// there: whole blocks at a multiple of a block (O_DIRECT), with room for a head in front and zeros
// behind. So nothing is copied, and no page of the system's cache is filled, on the way to the
// disk. The checksum is made while the bytes are copied, when they are in the first cache. Pure.
// Threads: one owner. Errors: none. Memory: what it held once at most, until it ends: to clear it
// and to use it again costs no page faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/checksum.hpp"

namespace rubato::server {

class LogBuffer {
 public:
  static constexpr std::size_t kBlockBytes = 4096;  // a multiple of any disk's
  static constexpr std::size_t kHeadBytes = 24;     // floats stay aligned behind it

  LogBuffer() = default;
  LogBuffer(LogBuffer&& other) noexcept { swap(other); }
  LogBuffer& operator=(LogBuffer&& other) noexcept {
    swap(other);
    other.clear();
    return *this;
  }

  bool empty() const { return size_ == 0; }
  // All that was added.
  std::span<const std::byte> log() const { return {memory_.get() + kHeadBytes, size_}; }
  // Bytes of memory that it has.
  std::size_t capacity() const { return capacity_; }

  // Returns: the copy. Lifetime: until the next call.
  std::span<const std::byte> add(std::span<const std::byte> more);
  // Ends the log with zeros up to a whole block. Returns: the checksum of all behind the head.
  std::uint64_t seal();
  // Head, log and zeros. `head`: kHeadBytes. Requires: sealed.
  std::span<std::byte> blocks(std::span<const std::byte> head);
  // Empties it. The memory stays.
  void clear();

  // Bytes on disk of a log with so many.
  static constexpr std::size_t bytes_on_disk(std::size_t log) {
    return (kHeadBytes + log + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(kBlockBytes));
    }
  };
  void swap(LogBuffer& other) noexcept;
  void reserve(std::size_t log);

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;  // of the log
  RunningChecksum sum_;
};

}  // namespace rubato::server
