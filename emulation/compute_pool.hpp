// emulation/compute_pool.hpp - gradients of independent workers at the same time: tasks whose
// results do not depend on who runs them or when.
// Threads: submit() and wait() from one owner. Tasks run on the pool's threads and, while it waits,
// on the owner's, so that `threads` is how many compute at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace rubato::emulation {

class ComputePool {
 public:
  using Ticket = std::uint64_t;

  // `threads` <= 1: the owner alone.
  explicit ComputePool(int threads);
  // Waits for the tasks that have begun and drops the others.
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  // The task runs between now and the return of wait().
  Ticket submit(std::function<void()> task);
  // Returns when the task has run.
  void wait(Ticket ticket);

 private:
  using Tasks = std::map<Ticket, std::function<void()>>;

  void work(std::stop_token stop);
  void run(std::unique_lock<std::mutex>& lock, Tasks::iterator task);

  std::mutex mutex_;  // guards all below but threads_
  std::condition_variable_any work_ready_;
  std::condition_variable task_done_;
  Tasks waiting_;
  std::set<Ticket> running_;
  Ticket last_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace rubato::emulation
