#include "base/quote.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/numbers.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";
constexpr std::string_view kPlainInShell =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,";

// In double quotes; hidden characters and those that are none in Unicode are escapes. `byte`: how
// an escape of two digits begins; null: there is none.
std::string escaped_text(std::string_view text, const char* byte) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::string_view character = take_character(text);
    const auto point = code_point(character);
    if (!point) {
      quoted += kReplacement;
    } else if (character == "\"" || character == "\\") {
      quoted.append("\\").append(character);
    } else if (is_hidden(*point) || (*point & 0xFFFE) == 0xFFFE) {
      const auto value = static_cast<std::uint32_t>(*point);
      quoted += value < 0x100 && byte ? fmt::format("{}{:02x}", byte, value)
                : value < 0x10000     ? fmt::format("\\u{:04x}", value)
                                      : fmt::format("\\U{:08x}", value);
    } else {
      quoted += character;
    }
  }
  return quoted + '"';
}

// What a spreadsheet would run: "=1+1", "@SUM(A1)", "+A1". A number and a lone sign are none.
bool is_formula(std::string_view text) {
  constexpr std::array<std::string_view, 8> kSigns{"=", "+", "-", "@", "＝", "＋", "－", "＠"};
  return std::ranges::any_of(kSigns,
                             [&](auto sign) { return text != sign && text.starts_with(sign); }) &&
         !parse_number<double>(text);
}

// `of(c)`: what stands for a character of ASCII; empty: itself.
template <class Of>
std::string replaced(std::string_view text, Of of) {
  std::string replaced;
  replaced.reserve(text.size());
  for (const char c : text) {
    const std::string_view other = of(c);
    if (other.empty())
      replaced += c;
    else
      replaced += other;
  }
  return replaced;
}

// Whether a here-document of these lines may end with `word`: none of them is that word. `whole`:
// and dash 0.5.12 drops no byte of them. It does so beyond ASCII, behind letters of the word at the
// front of a line.
bool may_end(std::string_view lines, std::string_view word, bool whole) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(line.size() + 1);
    if (line == word) return false;
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(line, word).in1 - line.begin());
    if (whole && same > 0 && same < line.size() && static_cast<unsigned char>(line[same]) >= 0x80)
      return false;
  }
  return true;
}

}  // namespace

std::string toml_text(std::string_view text) {
  return escaped_text(text, nullptr);
}

std::string yaml_text(std::string_view text) {
  return escaped_text(text, "\\x");
}

std::string yaml_word(std::string_view name) {
  constexpr std::array<std::string_view, 9> kWords{"y",   "n",    "yes",   "no",  "on",
                                                   "off", "true", "false", "null"};
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  const std::string lower = lower_case(name);
  const bool plain =
      !name.empty() && kLetters.find(lower[0]) != kLetters.npos &&
      lower.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == lower.npos &&
      std::ranges::find(kWords, lower) == kWords.end();
  return plain ? std::string(name) : yaml_text(name);
}

std::string csv_field(std::string text) {
  text = printable(std::move(text));
  if (is_formula(text)) text.insert(0, 1, '\'');
  // Blanks around a field count only within quotes.
  const bool padded = text.starts_with(' ') || text.ends_with(' ');
  if (!padded && text.find_first_of(",\"") == std::string::npos) return text;
  return fmt::format("\"{}\"", replaced(text, [](char c) { return c == '"' ? R"("")" : ""; }));
}

std::string html_text(std::string_view text) {
  return replaced(printable(std::string(text)), [](char c) -> std::string_view {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      default:
        return {};
    }
  });
}

// In a script element only "<" can end or nest one; JSON may write it as an escape anywhere.
std::string script_json(std::string_view json) {
  return replaced(json, [](char c) { return c == '<' ? "\\u003c" : ""; });
}

std::string latex_text(std::string_view text) {
  return replaced(printable(std::string(text)), [](char c) -> std::string_view {
    switch (c) {
      case '\\':
        return "\\textbackslash{}";
      case '~':
        return "\\textasciitilde{}";
      case '^':
        return "\\textasciicircum{}";
      case '<':
        return "\\textless{}";
      case '>':
        return "\\textgreater{}";
      case '|':
        return "\\textbar{}";
      case '"':
        return "\\textquotedbl{}";
      case '&':
        return "\\&";
      case '%':
        return "\\%";
      case '$':
        return "\\$";
      case '#':
        return "\\#";
      case '_':
        return "\\_";
      case '{':
        return "\\{";
      case '}':
        return "\\}";
      // A bracket or an asterisk at the begin of a row belongs to the command that ends the one
      // before; two dashes or quotes in a row become one sign.
      case '[':
        return "{[}";
      case '*':
        return "{*}";
      case '-':
        return "{-}";
      case '\'':
        return "\\textquotesingle{}";
      case '`':
        return "\\textasciigrave{}";
      default:
        return {};
    }
  });
}

std::string shell_word(std::string_view text) {
  if (!text.empty() && text.find_first_not_of(kPlainInShell) == text.npos) return std::string(text);
  return fmt::format("'{}'", replaced(text, [](char c) { return c == '\'' ? R"('\'')" : ""; }));
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    line += shell_word(word);
  }
  return line;
}

std::string here_document(std::string_view text, std::string_view end) {
  constexpr int kTried = 100;  // words; then one that is no line will do
  const std::string lines = fmt::format("{}{}", text, text.ends_with('\n') ? "" : "\n");
  std::string word(end);
  for (int i = 0; !may_end(lines, word, i < kTried); ++i)
    word = fmt::format("{}{}{}", static_cast<char>('A' + i % 26), end, i);
  return fmt::format("<<'{0}'\n{1}{0}\n", word, lines);
}

std::string environment_value(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '`' || c == '$') value += '\\';
    value += c;
  }
  return value + "\"";
}

}  // namespace rubato
