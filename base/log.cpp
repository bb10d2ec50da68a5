#include "base/log.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/terminal.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato {
namespace {

// A pipe that can be written to at all takes 4096 bytes at least.
constexpr std::size_t kLineBytesMax = 4000;
constexpr int kLastPatienceMs = 2000;

std::atomic<std::uint64_t> left_out = 0;  // lines, since the last one that was written
std::atomic<bool> failed = false;

// In one piece, so that no other process writes into it. `line`: with colours of ours alone.
void write_whole(std::FILE* stream, std::string_view line) {
  // Another process may have drawn a bar on this terminal.
  const auto bytes = fmt::format("{}{}\n", can_draw(stream) ? "\r\x1b[K" : "", line);
  std::fwrite(bytes.data(), 1, bytes.size(), stream);
  std::fflush(stream);
}

constexpr std::size_t kQueuedLinesMax = 1000;
thread_local LogQueue* queue_here = nullptr;

// Waits for room so long.
bool room_within(std::FILE* stream, int milliseconds) {
  pollfd wait{::fileno(stream), POLLOUT, 0};
  // A stream that is closed or has no descriptor does not wait for anybody.
  if (::poll(&wait, 1, milliseconds) != 0) return true;
  ++left_out;
  return false;
}

std::string left_out_text(std::uint64_t count, std::string_view where) {
  return fmt::format("{} left out {}: nobody read in time", counted(count, "line"), where);
}

// Colours the level, and leaves out lines for which there is no room.
class UnblockedSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (!room_for_line(stderr)) return;
    if (const auto count = left_out.exchange(0)) {
      const std::string text = left_out_text(count, "before this one");
      write({message.logger_name, spdlog::level::warn, text});
    }
    write(message);
  }
  void flush_() override {}

 private:
  void write(spdlog::details::log_msg message) {
    const std::string text =
        printable({message.payload.data(), std::min(message.payload.size(), kLineBytesMax)});
    message.payload = text;
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string line = fmt::to_string(formatted);
    if (line.ends_with('\n')) line.pop_back();
    if (message.color_range_end > message.color_range_start && wants_colour(stderr)) {
      const bool warns = message.level >= spdlog::level::warn;
      line.insert(message.color_range_end, "\x1b[0m");
      line.insert(message.color_range_start, warns ? "\x1b[33m\x1b[1m" : "\x1b[32m");
    }
    write_whole(stderr, line);
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
  return room_within(stream, 0);
}

bool room_for_last_line(std::FILE* stream) {
  return room_within(stream, kLastPatienceMs);
}

void end_log() {
  if (left_out == 0 || !room_for_last_line(stderr)) return;
  write_line(stderr, "rubato: " + left_out_text(left_out.exchange(0), "at the end"));
}

void write_line(std::FILE* stream, std::string_view line) {
  write_whole(stream, printable(std::string(line), "\n\t"));
}

void LogQueue::push(LogLevel level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() == kQueuedLinesMax) lines_.pop_front();
  lines_.push_back({level, printable({text.data(), std::min(text.size(), kLineBytesMax)})});
}

std::optional<LogQueue::Line> LogQueue::poll() {
  const std::lock_guard lock(mutex_);
  if (lines_.empty()) return std::nullopt;
  std::optional<Line> line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

LogTo::LogTo(LogQueue& queue) : before_(std::exchange(queue_here, &queue)) {}

LogTo::~LogTo() {
  queue_here = before_;
}

void log_info(std::string_view line) {
  queue_here ? queue_here->push(LogLevel::Info, line) : logger().info(line);
}

void log_warning(std::string_view line) {
  queue_here ? queue_here->push(LogLevel::Warning, line) : logger().warn(line);
}

void log_failure(std::string_view line) {
  failed = true;
  queue_here ? queue_here->push(LogLevel::Failure, line) : logger().warn(line);
}

bool failure_logged() {
  return failed;
}

void set_log_quiet(bool quiet) {
  logger().set_level(quiet ? spdlog::level::warn : spdlog::level::info);
}

bool log_quiet() {
  return logger().level() > spdlog::level::info;
}

}  // namespace rubato
