// base/timers.hpp - the deadlines of a core, one for each name of an enum. A core sets and stops
// them; next() is when its poll_wakeup() is due. A deadline stays until it is set anew or stopped.
// Pure. Cost: O(names) for next(), O(1) else. Threads: one owner. Errors: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <optional>

#include "base/time.hpp"

namespace rubato {

// The earliest of those that are there. Nothing: none is.
constexpr std::optional<Instant> earliest(std::initializer_list<std::optional<Instant>> all) {
  std::optional<Instant> first;
  for (const auto& each : all)
    if (each && (!first || *each < *first)) first = each;
  return first;
}

// `Name`: an enum without gaps, which begins at 0. `kLast`: the last of its names.
template <class Name, Name kLast>
class Timers {
 public:
  constexpr void set(Name name, Instant at) { deadline(name) = at; }
  constexpr void stop(Name name) { deadline(name).reset(); }
  constexpr void stop_all() { deadlines_.fill(std::nullopt); }

  constexpr const std::optional<Instant>& at(Name name) const {
    return deadlines_[static_cast<std::size_t>(name)];
  }
  // It is set, and `now` is not before it.
  constexpr bool due(Name name, Instant now) const { return at(name) && *at(name) <= now; }
  // The earliest of all. Nothing: none is set.
  constexpr std::optional<Instant> next() const {
    std::optional<Instant> first;
    for (const auto& each : deadlines_) first = earliest({first, each});
    return first;
  }

 private:
  constexpr std::optional<Instant>& deadline(Name name) {
    return deadlines_[static_cast<std::size_t>(name)];
  }

  std::array<std::optional<Instant>, static_cast<std::size_t>(kLast) + 1> deadlines_{};
};

}  // namespace rubato
