#include "cli/host_info.hpp"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "base/log.hpp"
#include "base/words.hpp"
#include "train/cpu/cpu_info.hpp"
#include "train/cuda/gpu.hpp"
#include "train/device.hpp"

namespace rubato::cli {
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

void log_device(std::string_view device) {
  if (const auto number = train::gpu_number(device)) {
    const auto gpu = train::cuda::open_gpu(*number, train::cuda::Precision::Float32);
    if (gpu) log_info(fmt::format("{}: {}", device, (*gpu)->description()));
  }
  if (device != "cpu") return;
  log_info(train::describe_cpu());
  for (const auto& warning : train::cpu_warnings()) log_warning(warning);
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

}  // namespace rubato::cli
