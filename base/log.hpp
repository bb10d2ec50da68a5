// base/log.hpp - one line to standard error with the time of day and a level. Any thread.
// A line for which a reader has left no room is left out: nobody waits for it. The next line says
// how many were. NO_COLOR and TERM=dumb are obeyed.
#pragma once

#include <cstddef>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace rubato {

enum class LogLevel { Info, Warning, Failure };

// Lines that are kept for somebody who shows them elsewhere than on standard error. The oldest go
// first when there are too many. Any thread.
class LogQueue {
 public:
  struct Line {
    LogLevel level = LogLevel::Info;
    std::string text;
  };
  void push(LogLevel level, std::string_view text);
  std::optional<Line> poll();

 private:
  std::mutex mutex_;  // guards lines_
  std::deque<Line> lines_;
};

// While it lives, lines of this thread go to `queue`. Lifetime: `queue` outlives it.
class LogTo {
 public:
  explicit LogTo(LogQueue& queue);
  ~LogTo();
  LogTo(const LogTo&) = delete;
  LogTo& operator=(const LogTo&) = delete;

 private:
  LogQueue* before_;
};

void log_info(std::string_view line);
void log_warning(std::string_view line);
// A warning that a file which the user wants is missing or not whole. The command does not end with
// exit code 0 then.
void log_failure(std::string_view line);
// Whether there was one.
bool failure_logged();
// Info lines are dropped when quiet. Set once, before threads start.
void set_log_quiet(bool quiet);
bool log_quiet();
// For those who write lines themselves. Returns: whether a line can be written without waiting for
// a reader. If not, it counts as left out.
bool room_for_line(std::FILE* stream);
// room_for_line() for a line that nothing follows: a slow reader is waited for, 2 s at most.
bool room_for_last_line(std::FILE* stream);
// To be called when the process has nothing more to say. Says how many lines were left out since
// the last one that was written.
void end_log();
// Writes `line` and its end in one piece, as printable() shows it, with its lines and tabs. On a
// terminal it takes the place of a bar. A line that cannot be written, as on a full disk, is left
// out.
void write_line(std::FILE* stream, std::string_view line);

}  // namespace rubato
