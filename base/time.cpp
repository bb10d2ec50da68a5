#include "base/time.hpp"

#include <chrono>
#include <ctime>

#include "base/thread_time.hpp"

namespace rubato {

Instant steady_now() {
  return Instant{std::chrono::duration_cast<std::chrono::nanoseconds>(
                     std::chrono::steady_clock::now().time_since_epoch())
                     .count()};
}

Instant thread_now() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return {static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

std::int64_t wall_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace rubato
