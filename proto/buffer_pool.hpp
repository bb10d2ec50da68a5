// proto/buffer_pool.hpp - float buffers of one size, used again once nobody else holds them.
// Memory: as many buffers as were ever held at once. Threads: one owner of the pool; a buffer may
// be released on any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/shareable.hpp"

namespace rubato::proto {

class BufferPool {
 public:
  using Buffer = std::shared_ptr<Floats>;

  explicit BufferPool(std::size_t floats) : floats_(floats) {}

  // Returns: a buffer that nobody else holds; what is in it is left over from its last use.
  Buffer take() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      // The oldest first: messages are sent in order, so it is usually free.
      next_ = next_ + 1 < buffers_.size() ? next_ + 1 : 0;
      if (!held(buffers_[next_], 1)) return buffers_[next_];
    }
    buffers_.insert(buffers_.begin() + static_cast<std::ptrdiff_t>(next_),
                    std::make_shared<Floats>(floats_));
    return buffers_[next_];
  }

  // Requires: the caller holds `buffer` once, and the pool, if it came from take(). Returns:
  // whether anybody else does; if not, it may be written.
  bool held_elsewhere(const Buffer& buffer) const { return held(buffer, 2); }

  std::size_t size() const { return buffers_.size(); }

 private:
  static bool held(const Buffer& buffer, long known) {
    if (buffer.use_count() > known) return true;
    // Dropping one more reference orders our writes after the last reader's reads.
    const Buffer synchronized(buffer);
    return false;
  }

  std::size_t floats_;
  std::vector<Buffer> buffers_;
  std::size_t next_ = 0;  // the one given last
};

}  // namespace rubato::proto
