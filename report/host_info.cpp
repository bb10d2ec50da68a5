#include "report/host_info.hpp"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "base/words.hpp"

namespace rubato::report {
namespace {

// Returns: the text behind the first `key` and its separator, without quotes; "unknown" if none.
std::string first_value(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t\"", at + 1);
    const auto end = line.find_last_not_of(" \t\"");
    if (begin == std::string::npos || end < begin) continue;
    return line.substr(begin, end - begin + 1);
  }
  return "unknown";
}

}  // namespace

std::string_view version() {
  return RUBATO_VERSION;
}

HostInfo read_host_info() {
  return {.cpu = first_value("/proc/cpuinfo", "model name", ':'),
          .cores = std::thread::hardware_concurrency(),
          .os = first_value("/etc/os-release", "PRETTY_NAME=", '='),
          .version = std::string(version()),
          .commit = std::string(commit())};
}

std::string describe(const HostInfo& host) {
  return fmt::format("{}, {}, {}, rubato {}", host.cpu, counted(host.cores, "core"), host.os,
                     host.version);
}

}  // namespace rubato::report
