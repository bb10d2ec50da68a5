#include "cluster/compute_thread.hpp"

#include <utility>

#include "base/check.hpp"

namespace rubato::cluster {

ComputeThread::ComputeThread(std::function<void()> on_done)
    : on_done_(std::move(on_done)), thread_([this](std::stop_token stop) { work(stop); }) {}

ComputeThread::~ComputeThread() = default;  // jthread asks to stop, then joins

void ComputeThread::submit(std::function<void()> job) {
  RUBATO_CHECK(!busy_, "one job at a time");
  busy_ = true;
  const std::lock_guard lock(mutex_);
  job_ = std::move(job);
  changed_.notify_one();
}

bool ComputeThread::take_done() {
  if (!done_.exchange(false)) return false;
  busy_ = false;
  return true;
}

void ComputeThread::work(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return job_ != nullptr; })) {
    const auto job = std::exchange(job_, nullptr);
    lock.unlock();
    job();
    done_ = true;
    on_done_();
    lock.lock();
  }
}

}  // namespace rubato::cluster
