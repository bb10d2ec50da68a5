// base/utf8.hpp - whether bytes are UTF-8 (RFC 3629), and what of a text of others can be shown.
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rubato {

// Length of the UTF-8 sequence at the front of `text`; 0: it is none.
inline std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length =
      byte(0) >= 0xF0 ? 4 : (byte(0) >= 0xE0 ? 3 : (byte(0) >= 0xC2 ? 2 : 0));
  if (length == 0 || byte(0) > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xF0 && byte(1) < 0x90);
  const bool outside = (byte(0) == 0xED && byte(1) > 0x9F) || (byte(0) == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

// Takes one character off the front of `text`, which is not empty: a UTF-8 sequence, or one byte
// that begins none.
inline std::string_view take_character(std::string_view& text) {
  const std::size_t length = utf8_sequence(text);
  const std::string_view character = text.substr(0, length == 0 ? 1 : length);
  text.remove_prefix(character.size());
  return character;
}

// Without the byte-order mark that editors of Windows put at the front.
inline std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

// The code point of one character, as take_character() gives it. Nothing: it is no UTF-8.
std::optional<char32_t> code_point(std::string_view character);

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Characters that mislead in a text of somebody else. Control characters move the cursor of a
// terminal or end a line: C0, DEL, C1, U+2028 and U+2029. Hidden ones are these, and those that
// nobody sees or that turn the order of others: zero-width characters, marks of direction, tags.
bool is_control(char32_t character);
bool is_hidden(char32_t character);

// The first such character of `text`, as a message names it: "U+001B"; "the byte 0xFF" where it is
// no UTF-8. Nothing: there is none.
std::optional<std::string> control_in(std::string_view text);
std::optional<std::string> hidden_in(std::string_view text);

// `text` with "?" for each hidden character, and for each byte that is no UTF-8: such a text stays
// in one line. `kept`: ASCII characters that stay.
std::string printable(std::string text, std::string_view kept = {});

// JSON with escapes for the hidden characters within its texts: the same values.
std::string escaped_json(std::string_view json);

}  // namespace rubato
