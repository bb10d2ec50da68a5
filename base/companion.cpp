#include "base/companion.hpp"

#include <sched.h>
#include <unistd.h>

#include <utility>

#include "base/cores.hpp"

namespace rubato {
namespace {

int this_thread() {
  static thread_local const int id = ::gettid();
  return id;
}

}  // namespace

Companion::Companion(std::size_t cores_max) {
  auto allowed = allowed_cores();
  if (allowed.size() >= 2 && allowed.size() <= cores_max) cores_ = std::move(allowed);
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
  (void)run_on(thread, {&core, 1});
}

void Companion::let_go() {
  if (core_ < 0) return;
  core_ = -1;
  (void)run_on(followed_, cores_);
}

}  // namespace rubato
