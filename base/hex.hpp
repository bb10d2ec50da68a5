// base/hex.hpp - bytes as hexadecimal digits, and back: of a path that is no UTF-8, within a text
// that is. Pure.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace rubato {

inline std::string hex_text(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

// Empty: it is no such text.
inline std::string bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned char byte = 0;
    const auto read = std::from_chars(digits.data() + i, digits.data() + i + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != digits.data() + i + 2) return {};
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace rubato
