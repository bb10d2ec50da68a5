// base/cores.hpp - threads on cores that the user has chosen. A thread runs where the one that
// started it ran, so a thread is placed before it is started: its parent goes to that core first.
// Linux only. Threads: any.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace rubato {

// Where the calling thread may run, ascending; empty: unknown.
std::vector<int> allowed_cores();
// How many cores' worth of time a quota of control groups allows this process (containers: --cpus);
// the least of its groups, version 1 or 2. Nothing: there is none. `groups` and `root`: where the
// kernel tells.
std::optional<double> core_quota(const std::filesystem::path& groups = "/proc/self/cgroup",
                                 const std::filesystem::path& root = "/sys/fs/cgroup");
// `thread`, by the kernel's number (0: the calling one), runs on these cores alone. Returns:
// whether the kernel does so.
bool run_on(int thread, std::span<const int> cores);

// Its calls are about the calling thread alone.
class Cores {
 public:
  Cores() = default;  // none chosen: the kernel's choice
  // Reads "0", "0,2" or "0-3,3": cores and ranges of them, in order; one may come again.
  // Errors: BadInput where it reads otherwise or names a core that this process may not run on.
  static Result<Cores> parse(std::string_view text);

  // From now on the calling thread, and those that it starts, run on core number `thread` of the
  // list alone; beyond its end the list begins again. Does nothing where no core was chosen.
  void place(std::size_t thread) const;

 private:
  std::vector<int> list_;
};

}  // namespace rubato
