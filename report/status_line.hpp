// report/status_line.hpp - a bar or a text that is drawn over itself on a terminal, plain lines
// elsewhere.
// NO_COLOR and TERM=dumb are obeyed. A line for which there is no room is left out (base/log.hpp).
// Errors: none. Threads: one at a time.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace rubato::report {

class StatusLine {
 public:
  // Lifetime: `stream` outlives this object.
  explicit StatusLine(std::FILE* stream);
  ~StatusLine();  // removes the bar
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // True on a terminal that can draw. Else bar() and text() must not be called.
  bool is_bar() const { return bar_; }
  // "[####----]  50 % `text`", cut to the terminal's width. `fraction` in [0, 1].
  void bar(double fraction, std::string_view text);
  // `text`, cut to the terminal's width.
  void text(std::string_view text);
  // A line that stays.
  void line(std::string_view text);
  // Makes room for a line that somebody else writes.
  void clear();

 private:
  std::FILE* stream_;
  bool bar_;
  bool colour_;
  bool drawn_ = false;
};

}  // namespace rubato::report
