#include "base/print.hpp"

#include "base/utf8.hpp"

namespace rubato {

void print_shown(std::string text) {
  print_exact(printable(std::move(text), "\n\t"));
}

void print_json(const std::string& json) {
  print_exact(escaped_json(json) + (json.ends_with('\n') ? "" : "\n"));
}

void print_exact(std::string_view text) {
  fmt::print("{}", text);
}

}  // namespace rubato
