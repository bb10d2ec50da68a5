#include "base/utf8.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rubato {
namespace {

struct Range {
  char32_t first, last;
};

constexpr std::array kControls{Range{0x00, 0x1F}, Range{0x7F, 0x9F}, Range{0x2028, 0x2029}};
constexpr std::array kUnseen{
    Range{0xAD, 0xAD},        // soft hyphen
    Range{0x61C, 0x61C},      // Arabic letter mark
    Range{0x180E, 0x180E},    // Mongolian vowel separator
    Range{0x200B, 0x200F},    // zero width, direction
    Range{0x202A, 0x202E},    // embedding and override of direction
    Range{0x2060, 0x206F},    // word joiner, operators, isolates of direction
    Range{0xFEFF, 0xFEFF},    // byte order mark
    Range{0xFFF9, 0xFFFB},    // annotation
    Range{0xE0000, 0xE007F},  // tags
};

template <class Ranges>
bool within(const Ranges& ranges, char32_t character) {
  return std::ranges::any_of(ranges, [character](const Range& range) {
    return range.first <= character && character <= range.last;
  });
}

std::optional<std::string> first_in(std::string_view text, bool (*refused)(char32_t)) {
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    const auto point = code_point(character);
    if (!point)
      return fmt::format("the byte {:#04x}", static_cast<unsigned char>(character.front()));
    if (refused(*point)) return fmt::format("U+{:04X}", static_cast<std::uint32_t>(*point));
  }
  return std::nullopt;
}

bool plain(char c) {
  return c >= ' ' && c <= '~';
}

}  // namespace

std::optional<char32_t> code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (byte(0) < 0x80) return byte(0);
  if (character.size() == 1) return std::nullopt;
  char32_t point = byte(0) & (0xFFU >> (character.size() + 1));
  for (std::size_t i = 1; i < character.size(); ++i) point = point << 6 | (byte(i) & 0x3FU);
  return point;
}

bool is_control(char32_t character) {
  return within(kControls, character);
}

bool is_hidden(char32_t character) {
  return is_control(character) || within(kUnseen, character);
}

std::optional<std::string> control_in(std::string_view text) {
  return first_in(text, &is_control);
}

std::optional<std::string> hidden_in(std::string_view text) {
  return first_in(text, &is_hidden);
}

std::string printable(std::string text, std::string_view kept) {
  if (std::ranges::all_of(text, plain)) return text;
  std::string shown;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view character = take_character(rest);
    const auto point = code_point(character);
    const bool stays = (point && !is_hidden(*point)) || kept.find(character[0]) != kept.npos;
    shown += stays ? character : "?";
  }
  return shown;
}

std::string escaped_json(std::string_view json) {
  std::string escaped;
  while (!json.empty()) {
    const std::string_view character = take_character(json);
    const auto point = code_point(character);
    // ASCII is escaped already but for DEL, and what is left of it stands between values.
    if (!point || *point < 0x7F || !is_hidden(*point)) {
      escaped += character;
    } else if (*point < 0x10000) {
      escaped += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(*point));
    } else {
      const auto above = static_cast<std::uint32_t>(*point - 0x10000);
      escaped +=
          fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
    }
  }
  return escaped;
}

}  // namespace rubato
