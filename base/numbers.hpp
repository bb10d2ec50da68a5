// base/numbers.hpp - numbers from text, all of it or nothing, whatever the locale; and whether many
// are finite. Pure.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace rubato {

// Returns: the value of "12", "-0.5", "+1", "1e-3", and 0 for a number that is too small for T;
// nothing for other text, numbers too large for T, infinity and NaN.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (end != last) return std::nullopt;
  if constexpr (std::floating_point<T> && !std::same_as<T, long double>) {
    if (error == std::errc::result_out_of_range) {
      const auto wide = parse_number<long double>(text);
      return wide && std::abs(*wide) < 1 ? std::optional<T>(T{}) : std::nullopt;
    }
  }
  if (error != std::errc()) return std::nullopt;
  if constexpr (std::floating_point<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// True when no value is NaN or infinite. One pass over memory.
bool all_finite(std::span<const float> values);

}  // namespace rubato
