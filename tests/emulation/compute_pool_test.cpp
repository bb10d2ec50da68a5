#include "emulation/compute_pool.hpp"

#include <doctest/doctest.h>

#include <latch>
#include <thread>
#include <vector>

using rubato::emulation::ComputePool;

TEST_CASE("a task has run once it was waited for, whatever the number of threads") {
  for (const int threads : {0, 1, 2, 4}) {
    CAPTURE(threads);
    ComputePool pool(threads);
    std::vector<int> results(500);
    std::vector<ComputePool::Ticket> tickets;
    for (int i = 0; i < 500; ++i)
      tickets.push_back(
          pool.submit([&results, i] { results[static_cast<std::size_t>(i)] = i * i; }));
    // Not in the order of submission.
    for (std::size_t i = 0; i < 500; ++i) {
      const std::size_t task = i * 7 % 500;
      pool.wait(tickets[task]);
      CHECK(results[task] == static_cast<int>(task * task));
    }
  }
}

TEST_CASE("a pool that ends waits for a task that has begun") {
  std::latch begun(1);
  bool done = false;
  {
    ComputePool pool(2);
    pool.submit([&] {
      begun.count_down();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      done = true;
    });
    begun.wait();
  }
  CHECK(done);
}

TEST_CASE("without threads a task runs when it is waited for, and else never") {
  std::vector<int> order;
  {
    ComputePool pool(1);
    const auto first = pool.submit([&] { order.push_back(1); });
    const auto second = pool.submit([&] { order.push_back(2); });
    pool.submit([&] { order.push_back(3); });
    CHECK(order.empty());
    pool.wait(second);
    pool.wait(first);
  }
  CHECK(order == std::vector{2, 1});
}

TEST_CASE("two threads run two tasks at the same time") {
  ComputePool pool(2);
  std::latch both(2);
  const auto first = pool.submit([&] { both.arrive_and_wait(); });
  const auto second = pool.submit([&] { both.arrive_and_wait(); });
  pool.wait(second);
  pool.wait(first);
}
