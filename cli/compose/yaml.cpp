#include "cli/compose/yaml.hpp"

#include "base/json.hpp"

namespace rubato::cli {

std::string quoted(const std::string& text) {
  return Json(text).dump();
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
