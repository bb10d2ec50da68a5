// base/time.hpp - instants and durations as distinct types, and the one place that reads a clock.
// Units: nanoseconds in int64 (292 years). An Instant has no epoch of its own: virtual time starts
// at 0, real time at an unspecified steady origin. Threads: values, safe to copy anywhere.
#pragma once

#include <compare>
#include <cstdint>

namespace rubato {

constexpr std::int64_t time_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return !__builtin_add_overflow(a, b, &sum) ? sum : b > 0 ? INT64_MAX : INT64_MIN;
}
constexpr std::int64_t time_difference(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  return !__builtin_sub_overflow(a, b, &difference) ? difference : b < 0 ? INT64_MAX : INT64_MIN;
}

struct Duration {
  std::int64_t ns = 0;

  // More than a century, either way, is a century.
  static constexpr Duration from_seconds(double s) {
    constexpr double kCentury = 3.2e9;
    if (!(s < kCentury)) s = kCentury;
    if (s < -kCentury) s = -kCentury;
    return Duration{static_cast<std::int64_t>(s * 1e9 + (s >= 0 ? 0.5 : -0.5))};
  }
  static constexpr Duration from_ms(std::int64_t ms) { return Duration{ms * 1'000'000}; }
  constexpr double seconds() const { return static_cast<double>(ns) / 1e9; }
  constexpr std::int64_t ms() const { return ns / 1'000'000; }

  constexpr auto operator<=>(const Duration&) const = default;
  // What is too large for int64 ends at its limit: peers choose some of the terms.
  constexpr Duration operator+(Duration d) const { return {time_sum(ns, d.ns)}; }
  constexpr Duration operator-(Duration d) const { return {time_difference(ns, d.ns)}; }
  constexpr Duration operator*(double f) const { return from_seconds(seconds() * f); }
  constexpr Duration& operator+=(Duration d) { return *this = *this + d; }
  constexpr Duration& operator-=(Duration d) { return *this = *this - d; }
};

struct Instant {
  std::int64_t ns = 0;

  constexpr auto operator<=>(const Instant&) const = default;
  // The end of time, not the time before it, where the sum is too large.
  constexpr Instant operator+(Duration d) const { return {time_sum(ns, d.ns)}; }
  constexpr Instant operator-(Duration d) const { return {time_difference(ns, d.ns)}; }
  constexpr Duration operator-(Instant i) const { return {time_difference(ns, i.ns)}; }
  constexpr double seconds() const { return static_cast<double>(ns) / 1e9; }
};

// Reads the machine's steady clock. Only loops, throttles and main call it; cores take `now`.
Instant steady_now();
// The wall clock, in ns since 1970: to tell how long no process of ours ran.
std::int64_t wall_now_ns();

}  // namespace rubato
