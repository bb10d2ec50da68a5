#include "base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/numbers.hpp"

namespace rubato {
namespace {

constexpr std::size_t kUsualColumns = 80;  // of a terminal that does not say

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool can_draw(std::FILE* stream) {
  const std::string_view term = variable("TERM");
  return ::isatty(::fileno(stream)) == 1 && !term.empty() && term != "dumb";
}

bool wants_colour(std::FILE* stream) {
  return can_draw(stream) && variable("NO_COLOR").empty();
}

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

std::size_t text_columns(std::FILE* stream) {
  if (const auto wished = parse_number<std::uint32_t>(variable("COLUMNS")); wished && *wished > 0)
    return *wished;
  return ::isatty(::fileno(stream)) == 1 ? terminal_columns(stream) : kAnyWidth;
}

}  // namespace rubato
