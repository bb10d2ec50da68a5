#include "base/lock.hpp"

#include <fmt/format.h>
#include <sys/file.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"

namespace rubato {

bool take_lock(int file, const std::string& path) {
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  static std::atomic<bool> said = false;
  const int why = errno;
  if (!said.exchange(true))
    log_warning(
        fmt::format("{}: cannot be locked: {}; see to it that no other process writes there", path,
                    std::strerror(why)));
  return true;
}

}  // namespace rubato
