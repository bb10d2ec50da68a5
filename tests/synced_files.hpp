// tests/synced_files.hpp - which files and directories a test has had synced, by path; and a path
// whose sync fails. Takes the place of fsync() and fdatasync() of the C library: a test program
// includes it in one file.
// Threads: any.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace rubato {

struct SyncedFiles {
  std::mutex mutex;  // guards the others
  std::set<std::string> paths;
  std::string fails;  // this one; empty: none

  static SyncedFiles& all() {
    static SyncedFiles files;
    return files;
  }
  static std::set<std::string> take() {
    const std::lock_guard lock(all().mutex);
    return std::exchange(all().paths, {});
  }
  static void fail(const std::string& path) {
    const std::lock_guard lock(all().mutex);
    all().fails = path;
  }
  static int sync(int file, long call) {
    std::array<char, 4096> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
    const std::string name(path.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    {
      const std::lock_guard lock(all().mutex);
      if (!all().fails.empty() && name == all().fails) {
        errno = EIO;
        return -1;
      }
      all().paths.insert(name);
    }
    return static_cast<int>(::syscall(call, file));
  }
};

}  // namespace rubato

// NOLINTBEGIN(misc-definitions-in-headers): one file includes it
extern "C" int fsync(int file) {
  return rubato::SyncedFiles::sync(file, SYS_fsync);
}
extern "C" int fdatasync(int file) {
  return rubato::SyncedFiles::sync(file, SYS_fdatasync);
}
// NOLINTEND(misc-definitions-in-headers)
