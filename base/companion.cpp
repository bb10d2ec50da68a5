#include "base/companion.hpp"

#include <sched.h>
#include <unistd.h>

namespace rubato {
namespace {

int this_thread() {
  static thread_local const int id = ::gettid();
  return id;
}

}  // namespace

Companion::Companion(std::size_t cores_max) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const auto count = static_cast<std::size_t>(CPU_COUNT(&allowed));
  if (count < 2 || count > cores_max) return;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &allowed)) cores_.push_back(core);
}

void Companion::is_me() {
  if (!cores_.empty()) thread_.store(this_thread(), std::memory_order_relaxed);
}

void Companion::follow() {
  const int thread = thread_.load(std::memory_order_relaxed);
  if (thread == 0 || thread == this_thread()) return;
  const int core = ::sched_getcpu();
  if (core < 0 || (core == core_ && thread == followed_)) return;
  core_ = core;
  followed_ = thread;
  place(thread, {&core, 1});
}

void Companion::let_go() {
  if (core_ < 0) return;
  core_ = -1;
  place(followed_, cores_);
}

void Companion::place(int thread, std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  (void)::sched_setaffinity(thread, sizeof(set), &set);
}

}  // namespace rubato
