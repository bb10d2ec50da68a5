#include "cli/boxes/quote.hpp"

namespace rubato::cli {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += R"('\'')";
    else
      word += c;
  }
  return word + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string environment_value(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '`' || c == '$') value += '\\';
    value += c;
  }
  return value + "\"";
}

}  // namespace rubato::cli
