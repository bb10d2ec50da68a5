// base/print.hpp - text on standard output. It can hold what files, peers and models say, so no
// control character of theirs reaches a terminal. Errors: std::system_error where it cannot write.
// Threads: the main one.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace rubato {

// Prints `text` as printable() shows it, with its lines and tabs.
void print_shown(std::string text);

// print_shown() of a text that is formatted first.
template <class... Values>
void print_text(fmt::format_string<Values...> format, Values&&... values) {
  print_shown(fmt::format(format, std::forward<Values>(values)...));
}

// JSON, with escapes in place of hidden characters: the same values. A line end follows
// where it has none.
void print_json(const std::string& json);

// To the byte: a script that a shell is to read, or an order to the terminal.
void print_exact(std::string_view text);

}  // namespace rubato
