#include "base/cores.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/log.hpp"
#include "base/numbers.hpp"

namespace rubato {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  return cores;
}

namespace {

// Of one group, of either version.
std::optional<double> quota_of(const std::filesystem::path& group) {
  double quota = 0, period = 0;
  std::ifstream both(group / "cpu.max");
  if (!(both >> quota >> period)) {
    std::ifstream first(group / "cpu.cfs_quota_us"), second(group / "cpu.cfs_period_us");
    if (!(first >> quota && second >> period)) return std::nullopt;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

// Lines of /proc/self/cgroup: "4:cpu,cpuacct:/docker/12ab", of version 2 "0::/user.slice".
struct GroupLine {
  std::string controllers, path;

  bool has_cpu() const {
    return controllers.empty() || (',' + controllers + ',').find(",cpu,") != std::string::npos;
  }
};

}  // namespace

std::optional<double> core_quota(const std::filesystem::path& groups,
                                 const std::filesystem::path& root) {
  std::optional<double> least;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const GroupLine one{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
    if (!one.has_cpu()) continue;
    const char* const mounts[] = {"", "unified", "cpu", "cpu,cpuacct"};
    for (const char* mount : mounts) {
      // A group's quota holds for all groups in it. A container sees its own as the root.
      std::filesystem::path inside = std::filesystem::path(one.path).relative_path();
      for (;; inside = inside.parent_path()) {
        const auto quota = quota_of(root / mount / inside);
        if (quota && (!least || *quota < *least)) least = quota;
        if (inside.empty()) break;
      }
    }
  }
  return least;
}

bool run_on(int thread, std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  return ::sched_setaffinity(thread, sizeof(set), &set) == 0;
}

namespace {

// "0-3,6" of 0, 1, 2, 3, 6.
std::string ranges(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[i]);
    if (last > i) text += fmt::format("-{}", cores[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace

Result<Cores> Cores::parse(std::string_view text) {
  const auto wrong = fail(ErrorCode::BadInput,
                          fmt::format("'{}' is not a list of cores such as 0,2 or 0-3", text));
  const std::vector<int> allowed = allowed_cores();
  Cores cores;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const std::size_t dash = part.find('-');
    const auto first = parse_number<int>(part.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_number<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *first > *last) return wrong;
    for (int core = *first; core <= *last; ++core) {
      if (!std::binary_search(allowed.begin(), allowed.end(), core))
        return fail(ErrorCode::BadInput,
                    fmt::format("there is no core {} for this process; it may run on {}", core,
                                ranges(allowed)));
      cores.list_.push_back(core);
    }
  }
  return cores;
}

void Cores::place(std::size_t thread) const {
  if (list_.empty()) return;
  const int core = list_[thread % list_.size()];
  if (!run_on(0, {&core, 1})) log_warning(fmt::format("cannot stay on core {}", core));
}

}  // namespace rubato
