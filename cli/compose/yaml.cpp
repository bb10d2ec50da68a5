#include "cli/compose/yaml.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "base/quote.hpp"

namespace rubato::cli {

std::string without_variables(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped.append(c == '$' ? 2 : 1, c);
  return escaped;
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
  std::erase_if(lines, [](char c) { return c == '\n' || c == '\t' || c == '"' || c == '\\'; });
  // A block ends with one line end.
  const bool shown = yaml_text(lines) == "\"" + lines + "\"";
  if (!shown || !text.ends_with('\n') || text.ends_with("\n\n") || text == "\n")
    return yaml_text(text) + "\n";
  return "|2\n" + indented(text, indent);
}

std::string flow_list(const std::vector<std::string>& words, int indent) {
  constexpr std::size_t kColumns = 100;
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  std::string text = "[";
  std::size_t column = kColumns;  // the first word begins a line
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = yaml_text(words[i]) + (i + 1 < words.size() ? "," : "]");
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
