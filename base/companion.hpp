// base/companion.hpp - a thread that hands its work over to another one stays on that one's core
// where cores are few: what it has just written lies in that core's cache, and waking a thread of
// the same core rings no other one. Left to itself the kernel wakes it wherever a core is idle.
// With more than kCoresMax cores everything stays as it is: two threads on two cores do more.
// Errors: none; all of it is a wish. Linux only. Threads: see each.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace rubato {

class Companion {
 public:
  static constexpr std::size_t kCoresMax = 2;

  // `cores_max`: nobody follows where the calling thread may run on more; a quota of processor time
  // is none of cores. Where it may run now is where let_go() lets the companion run.
  explicit Companion(std::size_t cores_max = kCoresMax);

  // The calling thread is the companion; the last one that said so. Any thread.
  void is_me();
  // The companion runs on the caller's core from now on. A system call when that is another core
  // than at the last call, and nothing without a companion. One thread.
  void follow();
  // The companion may run anywhere again. The thread of follow().
  void let_go();

 private:
  std::vector<int> cores_;  // where both may run; empty: nobody follows
  std::atomic<int> thread_ = 0;
  int followed_ = 0;  // the thread that was placed last, and where
  int core_ = -1;     // -1: anywhere
};

}  // namespace rubato
