#include "emulation/compute_pool.hpp"

#include <utility>

namespace rubato::emulation {

ComputePool::ComputePool(int threads) {
  for (int i = 1; i < threads; ++i)
    threads_.emplace_back([this](std::stop_token stop) { work(stop); });
}

ComputePool::~ComputePool() {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  threads_.clear();  // asks each to stop, then joins
}

ComputePool::Ticket ComputePool::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  waiting_.emplace(++last_, std::move(task));
  work_ready_.notify_one();
  return last_;
}

void ComputePool::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  if (const auto own = waiting_.find(ticket); own != waiting_.end()) run(lock, own);
  while (running_.contains(ticket)) {
    if (waiting_.empty()) {
      task_done_.wait(lock);
    } else {
      run(lock, waiting_.begin());
    }
  }
}

void ComputePool::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (work_ready_.wait(lock, stop, [this] { return !waiting_.empty(); }))
    run(lock, waiting_.begin());
}

void ComputePool::run(std::unique_lock<std::mutex>& lock, Tasks::iterator task) {
  auto entry = waiting_.extract(task);
  running_.insert(entry.key());
  lock.unlock();
  entry.mapped()();
  lock.lock();
  running_.erase(entry.key());
  task_done_.notify_one();  // only the owner waits
}

}  // namespace rubato::emulation
