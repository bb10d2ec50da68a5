// base/time.hpp - instants and durations as distinct types, and the one place that reads a clock.
// Units: nanoseconds in int64 (292 years). An Instant has no epoch of its own: virtual time starts
// at 0, real time at an unspecified steady origin. Threads: values, safe to copy anywhere.
#pragma once

#include <compare>
#include <cstdint>

namespace rubato {

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
  constexpr Duration operator+(Duration d) const { return {ns + d.ns}; }
  constexpr Duration operator-(Duration d) const { return {ns - d.ns}; }
  constexpr Duration operator*(double f) const { return from_seconds(seconds() * f); }
  constexpr Duration& operator+=(Duration d) {
    ns += d.ns;
    return *this;
  }
  constexpr Duration& operator-=(Duration d) {
    ns -= d.ns;
    return *this;
  }
};

struct Instant {
  std::int64_t ns = 0;

  constexpr auto operator<=>(const Instant&) const = default;
  // The end of time, not the time before it, where the sum is too large.
  constexpr Instant operator+(Duration d) const {
    Instant sum;
    if (__builtin_add_overflow(ns, d.ns, &sum.ns)) sum.ns = d.ns > 0 ? INT64_MAX : INT64_MIN;
    return sum;
  }
  constexpr Instant operator-(Duration d) const { return {ns - d.ns}; }
  constexpr Duration operator-(Instant i) const { return {ns - i.ns}; }
  constexpr double seconds() const { return static_cast<double>(ns) / 1e9; }
};

// Reads the machine's steady clock. Only loops, throttles and main call it; cores take `now`.
Instant steady_now();
// The wall clock, in ns since 1970: to tell how long no process of ours ran.
std::int64_t wall_now_ns();

}  // namespace rubato
