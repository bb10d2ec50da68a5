// cluster/compute_thread.hpp - one thread that computes one job at a time for a loop.
// Threads: submit(), busy() and take_done() from the owner; jobs run on the thread; `on_done` is
// called there after each job and must be safe from any thread (Transport::wake is).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace rubato::cluster {

class ComputeThread {
 public:
  explicit ComputeThread(std::function<void()> on_done);
  // Waits for the job under way.
  ~ComputeThread();

  // Requires: not busy.
  void submit(std::function<void()> job);
  // A job was submitted and take_done() has not yet said that it ended.
  bool busy() const { return busy_; }
  // True once for each finished job, of which all is then to be seen. Takes no lock.
  bool take_done();

 private:
  void work(std::stop_token stop);

  std::function<void()> on_done_;
  bool busy_ = false;  // owner's
  std::mutex mutex_;   // guards job_
  std::condition_variable_any changed_;
  std::function<void()> job_;
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

}  // namespace rubato::cluster
