#include "base/limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>

namespace rubato {
namespace {

// A small worker takes 400 to 600 MiB: libraries, the stacks of its threads, buffers of OpenBLAS.
constexpr rlim_t kAddressSpaceMin = rlim_t{1} << 30;

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

}  // namespace rubato
