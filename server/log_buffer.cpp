#include "server/log_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace rubato::server {

void LogBuffer::swap(LogBuffer& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(capacity_, other.capacity_);
  std::swap(size_, other.size_);
  std::swap(sum_, other.sum_);
}

void LogBuffer::reserve(std::size_t log) {
  const std::size_t bytes = bytes_on_disk(log);
  if (bytes <= capacity_) return;
  const std::size_t capacity = std::max(bytes, 2 * capacity_);
  auto* const memory =
      static_cast<std::byte*>(::operator new(capacity, std::align_val_t(kBlockBytes)));
  if (size_ > 0) std::memcpy(memory + kHeadBytes, memory_.get() + kHeadBytes, size_);
  memory_.reset(memory);
  capacity_ = capacity;
}

std::span<const std::byte> LogBuffer::add(std::span<const std::byte> more) {
  reserve(size_ + more.size());
  std::byte* const begin = memory_.get() + kHeadBytes + size_;
  for (std::size_t at = 0; at < more.size(); at += kChecksumBlockBytes) {
    const auto block = more.subspan(at, std::min(kChecksumBlockBytes, more.size() - at));
    std::memcpy(begin + at, block.data(), block.size());
    sum_.add({begin + at, block.size()});
  }
  size_ += more.size();
  return {begin, more.size()};
}

std::uint64_t LogBuffer::seal() {
  reserve(size_);
  const std::span<std::byte> zeros(memory_.get() + kHeadBytes + size_,
                                   bytes_on_disk(size_) - kHeadBytes - size_);
  std::ranges::fill(zeros, std::byte{0});
  if (!zeros.empty()) sum_.add(zeros);
  return sum_.value();
}

std::span<std::byte> LogBuffer::blocks(std::span<const std::byte> head) {
  RUBATO_CHECK(head.size() == kHeadBytes && memory_, "a head for a log that is sealed");
  std::memcpy(memory_.get(), head.data(), head.size());
  return {memory_.get(), bytes_on_disk(size_)};
}

void LogBuffer::clear() {
  size_ = 0;
  sum_ = {};
}

}  // namespace rubato::server
