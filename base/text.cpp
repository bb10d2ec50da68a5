#include "base/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/numbers.hpp"
#include "base/terminal.hpp"
#include "base/utf8.hpp"
#include "base/words.hpp"

namespace rubato {
namespace {

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;  // of UTF-8
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const auto minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string duration_or(double seconds, const char* missed) {
  return std::isfinite(seconds) ? duration_text(seconds) : missed;
}

std::string left_text(std::optional<double> seconds) {
  if (!seconds) return "time left unknown";
  const auto steps = [&](double of) {
    return static_cast<std::int64_t>(std::clamp(std::ceil(*seconds / of), 1.0, 1e9));
  };
  if (*seconds <= 60) return fmt::format("about {} s left", 5 * steps(5));
  if (*seconds <= 3600) return fmt::format("about {} min left", steps(60));
  const auto minutes = 10 * steps(600);
  return fmt::format("about {} h {:02} min left", minutes / 60, minutes % 60);
}

std::string count_text(double count) {
  const std::string digits = fmt::format("{:.0f}", count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string count_of(double count, std::string_view noun) {
  const std::string text = count_text(count);
  return fmt::format("{} {}", text, text == "1" ? std::string(noun) : plural_of(noun));
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", bytes, decimals, kUnits[unit]);
}

std::string percent_text(double share) {
  const double percent = std::abs(share) < 0.0005 ? 0.0 : 100 * share;  // never "-0.0"
  return fmt::format("{:.1f} %", percent);
}

std::string figure_text(const Figure& figure, double value) {
  return figure.percent ? percent_text(value) : fmt::format("{:.4f}", value);
}

std::string figure_target_text(const Figure& figure, double target) {
  return figure.percent ? fmt::format("{:.4g} %", 100 * target) : fmt::format("{:.4g}", target);
}

std::string targets_text(const std::optional<double>& loss, const std::optional<double>& accuracy,
                         const ClassTargets& classes, Task task) {
  std::vector<std::string> all;
  if (loss) all.push_back(fmt::format("loss {}", *loss));
  if (accuracy) {
    const Figure figure = figure_of(task);
    all.push_back(fmt::format("{} {}", figure.word, figure_target_text(figure, *accuracy)));
  }
  for (const ClassFigure& figure : kClassFigures)
    if (const auto& target = classes.*figure.target)
      all.push_back(fmt::format("{} {}", figure.word, *target));
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string loss_text(double loss) {
  if (!(std::abs(loss) < 1e6)) return "diverged";
  return std::abs(loss) < 10 ? fmt::format("{:.4f}", loss) : fmt::format("{:.5g}", loss);
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::vector<std::string> broken(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (characters(text) > width) {
    std::size_t end = 0;  // of the first `width` characters
    for (std::size_t count = 0; end < text.size(); ++end)
      if (begins_character(text[end]) && ++count > width) break;
    const auto space = text.substr(0, end + 1).rfind(' ');
    const bool whole = space != text.npos && space > 0;
    lines.emplace_back(text.substr(0, whole ? space : end));
    text.remove_prefix(whole ? space + 1 : end);
  }
  lines.emplace_back(text);
  return lines;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  if (width == kAnyWidth) return std::string(text);
  std::string all;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\n') {
      all += text[at++];
      column = 0;
      continue;
    }
    const auto blanks = std::min(text.find_first_not_of(' ', at), text.size()) - at;
    const auto end = std::min(text.find_first_of(" \n", at + blanks), text.size());
    const auto word = text.substr(at + blanks, end - at - blanks);
    const std::size_t length = characters(word);
    if (column > indent && column + blanks + length > width) {
      all.append("\n").append(indent, ' ');
      column = indent;
    } else {
      all.append(blanks, ' ');
      column += blanks;
    }
    all += word;
    column += length;
    at = end;
  }
  return all;
}

}  // namespace rubato
