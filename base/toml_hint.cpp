#include "base/toml_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/numbers.hpp"

namespace rubato {
namespace {

using View = std::string_view;

View trimmed(View text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Without the comment at its end. Requires: no quotes in it.
View without_comment(View value) {
  return trimmed(value.substr(0, value.find('#')));
}

bool is_number(View text) {
  return parse_number<double>(text).has_value();
}

// Of "0,1", ".5", "20 s" and "2 workers": what is wrong; empty: it is no number at all.
std::string number_hint(View key, View value) {
  std::string point(value);
  std::ranges::replace(point, ',', '.');
  if (std::ranges::count(point, '.') == 1 && is_number(point)) {
    if (point.starts_with('.')) point.insert(0, 1, '0');
    if (point.ends_with('.')) point += '0';
    return fmt::format("a number has a point between digits: {} = {}", key, point);
  }
  const View number = value.substr(0, value.find_first_not_of("+-0123456789.eE_"));
  const View unit = trimmed(value.substr(number.size()));
  const bool word = !unit.empty() && unit.find_first_of(" ,:/-.") == unit.npos;
  if (!word || !is_number(number)) return {};
  return fmt::format("a number has no unit: {} = {}", key, number);
}

std::string string_hint(View key, View value) {
  const char quote = value.front();
  const auto end = value.find(quote, 1);
  if (quote == '"' && end != value.npos && value.substr(0, end).find('\\') != value.npos)
    return fmt::format("a \\ has a meaning of its own between \"; write /, or use ': {} = '{}'",
                       key, value.substr(1, end - 1));
  if (end == value.npos) return fmt::format("the text of {} has no {} at its end", key, quote);
  const View rest = without_comment(value.substr(end + 1));
  if (rest.empty()) return {};
  return fmt::format("{} has more than one text; several are written [\"a\", \"b\"]", key);
}

std::string value_hint(View key, View value) {
  if (value.front() == '"' || value.front() == '\'') return string_hint(key, value);
  if (value.front() == '=') return fmt::format("one = is enough: {} {}", key, value);
  if (value.front() == '[' || value.front() == '{') {
    const bool words =
        value.find_first_of("\"'=") == value.npos &&
        std::ranges::any_of(value, [](char c) { return std::isalpha(c & 0x7F) != 0; });
    return words ? fmt::format("texts need quotes: {} = [\"a\", \"b\"]", key) : "";
  }
  const View bare = without_comment(value);
  if (bare.empty()) return fmt::format("{} has no value", key);
  constexpr std::array<View, 5> kCurly = {"\u201c", "\u201d", "\u201e", "\u2018", "\u2019"};
  std::string text(bare);
  for (const View mark : kCurly)
    for (auto at = text.find(mark); at != text.npos; at = text.find(mark))
      text.erase(at, mark.size());
  if (text != bare) return fmt::format("quotes are straight in TOML: {} = \"{}\"", key, text);
  std::string word(bare);
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  if (word == "true" || word == "yes" || word == "on")
    return fmt::format("yes is written {} = true", key);
  if (word == "false" || word == "no" || word == "off")
    return fmt::format("no is written {} = false", key);
  if (std::string number = number_hint(key, bare); !number.empty()) return number;
  if (is_number(bare) || bare.find_first_of("\"'") != bare.npos) return {};
  return fmt::format("a text needs quotes: {} = \"{}\"", key, bare);
}

std::string hint(View line) {
  const View text = trimmed(line);
  if (text.empty() || text.starts_with('#')) return {};
  if (text.starts_with('[')) {
    const View end = text.starts_with("[[") ? "]]" : "]";
    if (text.find(end) != text.npos) return {};
    const View name = trimmed(without_comment(text).substr(0, text.find(']')));
    return fmt::format("the name of a section ends with {}: write {}{}", end, name, end);
  }
  const auto equals = text.find('=');
  const View key = trimmed(text.substr(0, equals));
  if (equals == text.npos || key.find_first_of(":\"' ") != key.npos) {
    const auto colon = text.find(':');
    const View name = trimmed(text.substr(0, colon));
    if (colon == text.npos || name.find_first_of(" \"'=") != name.npos)
      return equals == text.npos ? "a line is KEY = VALUE or [SECTION]" : "";
    return fmt::format("write = between {} and its value, not :", name);
  }
  if (key.empty()) return {};
  const View value = trimmed(text.substr(equals + 1));
  return value.empty() ? fmt::format("{} has no value", key) : value_hint(key, value);
}

}  // namespace

std::string toml_hint(View line, View problem) {
  std::string found = hint(line);
  return found.empty() ? std::string(problem) : found;
}

}  // namespace rubato
