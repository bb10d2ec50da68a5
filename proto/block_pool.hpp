// proto/block_pool.hpp - small blocks of memory that are used again: for owners of payloads, which
// one thread makes and any thread lets go of (ZeroMQ's, say), with every message.
// Memory: as many blocks as were ever out at once, until the pool's end. Threads: see each.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "base/check.hpp"

namespace rubato::proto {

class BlockPool {
 public:
  static constexpr std::size_t kBytes = 128;

  // Returns: kBytes, aligned for anything. One thread.
  void* take() {
    if (!free_) free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (!free_) return &blocks_.emplace_back();
    return std::exchange(free_, free_->next);
  }

  // Requires: from take(). Any thread; never waits. (Nobody but take() removes what is here, and
  // takes all at once: no block comes back while its neighbour is looked at.)
  void give(void* memory) {
    auto* block = static_cast<Block*>(memory);
    block->next = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(block->next, block, std::memory_order_release,
                                            std::memory_order_relaxed)) {
    }
  }

  // Blocks out or kept. The thread of take().
  std::size_t size() const { return blocks_.size(); }

 private:
  union Block {
    Block* next = nullptr;  // while it is not out
    alignas(std::max_align_t) std::byte bytes[kBytes];
  };

  std::deque<Block> blocks_;
  Block* free_ = nullptr;  // those that take() has taken back
  std::atomic<Block*> returned_ = nullptr;
};

// For std::allocate_shared: the object and its count in one block of a pool, which lives as long as
// they do. Threads: as the pool's.
template <class T>
class BlockAllocator {
 public:
  using value_type = T;  // NOLINT(readability-identifier-naming): the standard's

  explicit BlockAllocator(std::shared_ptr<BlockPool> pool) : pool_(std::move(pool)) {}
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert
  BlockAllocator(const BlockAllocator<U>& other) : pool_(other.pool_) {}

  T* allocate(std::size_t count) {
    static_assert(sizeof(T) <= BlockPool::kBytes);
    static_assert(alignof(T) <= alignof(std::max_align_t));
    RUBATO_CHECK(count == 1, "one object a block");
    return static_cast<T*>(pool_->take());
  }
  void deallocate(T* memory, std::size_t) { pool_->give(memory); }
  bool operator==(const BlockAllocator&) const = default;

 private:
  template <class>
  friend class BlockAllocator;

  std::shared_ptr<BlockPool> pool_;
};

}  // namespace rubato::proto
