#include "cli/boxes/quote.hpp"

#include <fmt/format.h>

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

std::string here_document(std::string_view text, std::string_view end) {
  const std::string lines = fmt::format("\n{}{}", text, text.ends_with('\n') ? "" : "\n");
  std::string word(end);
  for (int i = 2; lines.find(fmt::format("\n{}\n", word)) != lines.npos; ++i)
    word = fmt::format("{}{}", end, i);
  return fmt::format("<<'{0}'{1}{0}\n", word, lines);
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
