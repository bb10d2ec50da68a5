#include "base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace rubato {
namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("rubato");
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void log_info(std::string_view line) {
  logger().info(line);
}

void log_warning(std::string_view line) {
  logger().warn(line);
}

void set_log_quiet(bool quiet) {
  logger().set_level(quiet ? spdlog::level::warn : spdlog::level::info);
}

}  // namespace rubato
