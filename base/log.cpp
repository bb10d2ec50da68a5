#include "base/log.hpp"

#include <poll.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace rubato {
namespace {

// A pipe that can be written to at all takes 4096 bytes at least.
constexpr std::size_t kLineBytesMax = 4000;

std::atomic<std::uint64_t> left_out = 0;  // lines, since the last one that was written

class UnblockedSink : public spdlog::sinks::stderr_color_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    if (!room_for_line(stderr)) return;
    if (const auto count = left_out.exchange(0)) {
      const std::string text =
          fmt::format("{} lines are left out before this one: nobody read them in time", count);
      write({message.logger_name, spdlog::level::warn, text});
    }
    write(message);
  }

 private:
  void write(spdlog::details::log_msg message) {
    message.payload = {message.payload.data(), std::min(message.payload.size(), kLineBytesMax)};
    spdlog::sinks::stderr_color_sink_mt::log(message);
  }
};

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("rubato", std::make_shared<UnblockedSink>());
    made->set_pattern("%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

}  // namespace

bool room_for_line(std::FILE* stream) {
  pollfd wait{::fileno(stream), POLLOUT, 0};
  // What has no descriptor, or is closed, does not wait for anybody.
  if (::poll(&wait, 1, 0) != 0) return true;
  ++left_out;
  return false;
}

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
