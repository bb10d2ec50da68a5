#include "cli/compose/yaml.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string_view>

#include "base/json.hpp"
#include "base/utf8.hpp"

namespace rubato::cli {

std::string quoted(const std::string& text) {
  return escaped_json(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string without_variables(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped.append(c == '$' ? 2 : 1, c);
  return escaped;
}

std::string name_word(const std::string& name) {
  constexpr std::array<std::string_view, 9> kWords{"y",   "n",    "yes",   "no",  "on",
                                                   "off", "true", "false", "null"};
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool begins = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  return begins && std::ranges::find(kWords, lower) == kWords.end() ? name : quoted(name);
}

std::string indented(const std::string& text, int indent) {
  std::istringstream lines(text);
  std::string moved;
  for (std::string line; std::getline(lines, line);)
    moved += line.empty() ? "\n" : std::string(static_cast<std::size_t>(indent), ' ') + line + "\n";
  return moved;
}

std::string block(const std::string& text, int indent) {
  std::string lines = text;
  std::erase_if(lines, [](char c) { return c == '\n' || c == '\t'; });
  if (hidden_in(lines)) return quoted(text) + "\n";
  return "|2\n" + indented(text, indent);
}

std::string flow_list(const std::vector<std::string>& words, int indent) {
  constexpr std::size_t kColumns = 100;
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  std::string text = "[";
  std::size_t column = kColumns;  // the first word begins a line
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = quoted(words[i]) + (i + 1 < words.size() ? "," : "]");
    if (column + 1 + word.size() > kColumns) {
      text += "\n" + margin + word;
      column = margin.size() + word.size();
    } else {
      text += " " + word;
      column += 1 + word.size();
    }
  }
  return text;
}

}  // namespace rubato::cli
