#include "cli/text.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>

namespace rubato::cli {

std::string duration_text(double seconds) {
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const auto minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
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

std::string loss_text(double loss) {
  if (!(std::abs(loss) < 1e6)) return "diverged";
  return std::abs(loss) < 10 ? fmt::format("{:.4f}", loss) : fmt::format("{:.5g}", loss);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace rubato::cli
