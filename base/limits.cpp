#include "base/limits.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <latch>
#include <vector>

namespace rubato {
namespace {

// A small worker takes 400 to 600 MiB: libraries, the stacks of its threads, buffers of OpenBLAS.
constexpr rlim_t kAddressSpaceMin = rlim_t{1} << 30;
// Of a node: standard streams, ZeroMQ's wake-ups and sockets, shared memory, files of the run.
constexpr rlim_t kDescriptorsMin = 48;

}  // namespace

void live_within_limits() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  std::signal(SIGXFSZ, SIG_IGN);
}

Result<void> check_address_space() {
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur >= kAddressSpaceMin) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("the address space of this process ends at {} MiB, and a node needs {} "
                          "MiB; run `ulimit -v unlimited` before it",
                          space.rlim_cur >> 20, kAddressSpaceMin >> 20));
}

Result<void> check_descriptors(std::size_t connections) {
  const rlim_t needed = kDescriptorsMin + connections;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("this process may have {} open files, and needs {}; run `ulimit -n {}` "
                          "before it, or set LimitNOFILE= of its service",
                          files.rlim_cur, needed, std::max<rlim_t>(1024, needed)));
}

Result<void> check_threads(std::size_t count) {
  // Less than usual, more than libraries keep for each.
  constexpr std::size_t kStackBytes = std::size_t{1} << 20;
  pthread_attr_t small;
  ::pthread_attr_init(&small);
  ::pthread_attr_setstacksize(&small, kStackBytes);
  std::latch end(1);
  const auto wait = [](void* ended) -> void* {
    static_cast<std::latch*>(ended)->wait();
    return nullptr;
  };
  std::vector<pthread_t> threads(count);
  std::size_t started = 0;
  while (started < count && ::pthread_create(&threads[started], &small, wait, &end) == 0) ++started;
  end.count_down();
  for (std::size_t i = 0; i < started; ++i) ::pthread_join(threads[i], nullptr);
  ::pthread_attr_destroy(&small);
  if (started == count) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("the system lets this command start {} of the {} threads that it needs; "
                          "raise the limit of processes (ulimit -u, or TasksMax= of a service), or "
                          "end other programs of this user",
                          started, count));
}

}  // namespace rubato
