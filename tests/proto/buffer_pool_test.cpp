#include "proto/buffer_pool.hpp"

#include <doctest/doctest.h>

namespace rubato::proto {
namespace {

TEST_CASE("buffer pool: a buffer that is held is not given again, one that was released is") {
  BufferPool pool(3);
  auto a = pool.take();
  const auto b = pool.take();
  CHECK(a->size() == 3);
  CHECK(a != b);
  const auto* const released = a.get();
  a.reset();
  CHECK(pool.take().get() == released);
  CHECK(pool.size() == 2);
}

TEST_CASE("buffer pool: as many buffers as were held at once, however long it runs") {
  BufferPool pool(1);
  const auto slow = pool.take();  // one receiver never lets go
  std::vector<BufferPool::Buffer> held;
  for (int i = 0; i < 100; ++i) {
    held.push_back(pool.take());
    CHECK(held.back() != slow);
    if (held.size() > 3) held.erase(held.begin());
  }
  CHECK(pool.size() <= 5);
}

}  // namespace
}  // namespace rubato::proto
