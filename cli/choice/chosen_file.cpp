#include "cli/choice/chosen_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/utf8.hpp"

namespace rubato::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// "sync.asp" of the line "[sync.asp]  # comment"; "[workers" of "[[workers]]", which no key has.
// Empty: the line begins no section.
std::string_view section_of(std::string_view line) {
  line = trimmed(line);
  if (!line.starts_with('[')) return {};
  return trimmed(line.substr(1, line.find(']') - 1));
}

// What is behind "key =" in this line.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  line = trimmed(line);
  if (!line.starts_with(key)) return std::nullopt;
  line = trimmed(line.substr(key.size()));
  if (!line.starts_with('=')) return std::nullopt;
  return trimmed(line.substr(1));
}

void set_in(std::vector<std::string>& lines, const Setting& setting) {
  const auto dot = setting.key.rfind('.');
  const std::string section = dot == std::string::npos ? "" : setting.key.substr(0, dot);
  const std::string key = dot == std::string::npos ? setting.key : setting.key.substr(dot + 1);
  const std::string words = fmt::format("{} = {}", key, setting.value);
  auto begin = lines.begin();
  if (!section.empty()) {
    begin =
        std::ranges::find_if(lines, [&](const auto& line) { return section_of(line) == section; });
    if (begin == lines.end()) {
      lines.insert(lines.end(), {"", fmt::format("[{}]", section), words});
      return;
    }
    ++begin;
  }
  for (auto line = begin; line != lines.end() && section_of(*line).empty(); ++line) {
    const auto before = value_of(*line, key);
    if (!before) continue;
    *line = *before == setting.value || before->starts_with(setting.value + " ")
                ? *line
                : fmt::format("{}  # was {}", words, *before);
    return;
  }
  lines.insert(begin, words);
}

}  // namespace

std::string with_settings(const std::string& text, const std::vector<Setting>& settings) {
  std::vector<std::string> lines;
  std::istringstream all{std::string(without_mark(text))};
  for (std::string line; std::getline(all, line);) lines.push_back(line);
  for (const Setting& setting : settings) set_in(lines, setting);
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

}  // namespace rubato::cli
