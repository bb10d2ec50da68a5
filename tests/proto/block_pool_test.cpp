// Blocks that come back from another thread are used again, and no two owners ever share one.
#include "proto/block_pool.hpp"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

namespace rubato::proto {
namespace {

TEST_CASE("block pool: what was given back is taken again before there is more") {
  BlockPool pool;
  std::set<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.insert(pool.take());
  CHECK(blocks.size() == 10);
  for (void* block : blocks) {
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t) == 0);
    pool.give(block);
  }
  for (int i = 0; i < 10; ++i) CHECK(blocks.erase(pool.take()) == 1);
  CHECK(pool.size() == 10);
  pool.take();
  CHECK(pool.size() == 11);
}

TEST_CASE("block pool: shared owners live in it and keep it") {
  auto pool = std::make_shared<BlockPool>();
  using Values = std::array<int, 8>;
  const auto make = [&](int value) {
    Values values;
    values.fill(value);
    return std::allocate_shared<Values>(BlockAllocator<Values>(pool), values);
  };
  auto first = make(1);
  auto second = make(2);
  CHECK(pool->size() == 2);
  first.reset();
  first = make(3);
  CHECK(pool->size() == 2);
  CHECK((*second)[7] == 2);
  const std::weak_ptr<BlockPool> end = pool;
  pool.reset();
  first.reset();
  CHECK_FALSE(end.expired());
  CHECK((*second)[0] == 2);
  second.reset();
  CHECK(end.expired());
}

// Each block holds a number of its own while it is out: a block given to two would hold another.
TEST_CASE("block pool: two threads give back what a third takes") {
  constexpr std::size_t kOut = 64;  // at once
  BlockPool pool;
  std::array<std::atomic<std::size_t*>, kOut> slots{};
  std::atomic<bool> done = false;
  std::atomic<std::size_t> wrong = 0;
  const auto release = [&](std::size_t from) {
    for (bool last = false; !last;) {
      last = done;
      for (std::size_t i = from; i < kOut; i += 2) {
        std::size_t* const block = slots[i].exchange(nullptr);
        if (!block) continue;
        if (*block % kOut != i) ++wrong;
        pool.give(block);
      }
    }
  };
  std::vector<std::jthread> others;
  for (const std::size_t from : {0, 1}) others.emplace_back(release, from);
  for (std::size_t number = 0, taken = 0; taken < 100'000; ++number) {
    auto& slot = slots[number % kOut];
    if (slot.load()) continue;
    auto* const block = static_cast<std::size_t*>(pool.take());
    *block = number;
    slot = block;
    ++taken;
  }
  done = true;
  others.clear();
  CHECK(wrong == 0);
  CHECK(pool.size() <= kOut + 2);  // two on their way back
}

}  // namespace
}  // namespace rubato::proto
