#include "report/status_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/utf8.hpp"

namespace rubato::report {
namespace {

constexpr std::size_t kBarWidth = 24;  // at most

// The first `columns` characters of UTF-8.
std::string_view front(std::string_view text, std::size_t columns) {
  std::size_t at = 0, characters = 0;
  for (; at < text.size(); ++at) {
    const bool continued = (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
    if (!continued && ++characters > columns) break;
  }
  return text.substr(0, at);
}

// `text` as a part of one line.
std::string shown(std::string_view text) {
  return printable(std::string(text));
}

void put(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

StatusLine::StatusLine(std::FILE* stream)
    : stream_(stream), bar_(can_draw(stream)), colour_(wants_colour(stream)) {}

StatusLine::~StatusLine() {
  clear();
}

void StatusLine::bar(double fraction, std::string_view text) {
  RUBATO_CHECK(bar_, "a bar needs a terminal");
  if (!room_for_line(stream_)) return;
  // One column stays free: a full line would wrap and scroll.
  const std::size_t columns = terminal_columns(stream_) - 1;
  const std::size_t width = std::min(kBarWidth, columns / 6);
  const auto filled =
      std::min(width, static_cast<std::size_t>(static_cast<double>(width) * fraction));
  const std::string bar = std::string(filled, '#') + std::string(width - filled, '-');
  const std::string tail = fmt::format("] {:3.0f} % {}", std::floor(100 * fraction), shown(text));
  const std::string_view on = colour_ ? "\x1b[36m" : "";
  const std::string_view off = colour_ ? "\x1b[0m" : "";
  put(stream_, fmt::format("\r[{}{}{}{}\x1b[K", on, bar, off,
                           front(tail, columns - std::min(columns, width + 1))));
  drawn_ = true;
}

void StatusLine::text(std::string_view text) {
  RUBATO_CHECK(bar_, "a text that changes needs a terminal");
  if (!room_for_line(stream_)) return;
  put(stream_, fmt::format("\r{}\x1b[K", front(shown(text), terminal_columns(stream_) - 1)));
  drawn_ = true;
}

void StatusLine::line(std::string_view text) {
  drawn_ = false;
  if (room_for_line(stream_)) write_line(stream_, text);
}

void StatusLine::clear() {
  if (!drawn_) return;
  put(stream_, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace rubato::report
