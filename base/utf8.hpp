// base/utf8.hpp - whether bytes are UTF-8 (RFC 3629), and what of them a line can show. Pure.
#pragma once

#include <cstddef>
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

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// `text` with "?" for each control character, and for each byte beyond ASCII where it is no UTF-8:
// such a text stays in one line.
inline std::string printable(std::string text) {
  const bool utf8 = is_utf8(text);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7F || (byte >= 0x80 && !utf8)) c = '?';
  }
  return text;
}

}  // namespace rubato
