#include "cli/status_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.hpp"
#include "base/log.hpp"

namespace rubato::cli {
namespace {

constexpr std::size_t kBarWidth = 24;  // at most
constexpr std::size_t kDefaultColumns = 80;

bool can_draw(std::FILE* stream) {
  const char* term = std::getenv("TERM");
  return isatty(fileno(stream)) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

// https://no-color.org: set and not empty means no colour.
bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  return no_color == nullptr || *no_color == '\0';
}

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

}  // namespace

StatusLine::StatusLine(std::FILE* stream)
    : stream_(stream), bar_(can_draw(stream)), colour_(bar_ && wants_colour()) {}

StatusLine::~StatusLine() {
  clear();
}

void StatusLine::bar(double fraction, std::string_view text) {
  RUBATO_CHECK(bar_, "a bar needs a terminal");
  if (!room_for_line(stream_)) return;
  // One column stays free: a full line would wrap and scroll.
  const std::size_t columns = terminal_columns(stream_) - 1;
  const std::size_t width = std::min(kBarWidth, columns / 3);
  const auto filled =
      std::min(width, static_cast<std::size_t>(static_cast<double>(width) * fraction));
  const std::string bar = std::string(filled, '#') + std::string(width - filled, '-');
  const std::string tail = fmt::format("] {:3.0f} % {}", std::floor(100 * fraction), text);
  const std::string_view on = colour_ ? "\x1b[36m" : "";
  const std::string_view off = colour_ ? "\x1b[0m" : "";
  fmt::print(stream_, "\r[{}{}{}{}\x1b[K", on, bar, off,
             std::string_view(tail).substr(0, columns - std::min(columns, width + 1)));
  std::fflush(stream_);
  drawn_ = true;
}

void StatusLine::text(std::string_view text) {
  RUBATO_CHECK(bar_, "a text that changes needs a terminal");
  if (!room_for_line(stream_)) return;
  fmt::print(stream_, "\r{}\x1b[K", text.substr(0, terminal_columns(stream_) - 1));
  std::fflush(stream_);
  drawn_ = true;
}

void StatusLine::line(std::string_view text) {
  clear();
  if (!room_for_line(stream_)) return;
  fmt::print(stream_, "{}\n", text);
  std::fflush(stream_);
}

void StatusLine::clear() {
  if (!drawn_) return;
  fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace rubato::cli
