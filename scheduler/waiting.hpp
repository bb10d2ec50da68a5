// scheduler/waiting.hpp - for whom a run waits before its start, in words: "pi-1, slow (2 of 4
// workers joined)".
// Pure.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/words.hpp"

namespace rubato::scheduler {

inline constexpr std::size_t kNamesSaid = 5;

// `next`: the address of the server that is to join before the others. Empty: any may join.
inline std::string servers_awaited(std::size_t here, std::size_t wanted, const std::string& next) {
  const std::size_t missing = wanted - here;
  const std::string who = next.empty() ? counted(missing, "server") : "the server at " + next;
  return fmt::format("{} ({} of {} joined)", who, here, wanted);
}

// `missing`: the names of those that are not here. The line has a number instead of names where
// the wait is for fewer of them, or where nobody knows the names.
inline std::string workers_awaited(const std::vector<std::string>& missing, std::size_t here,
                                   std::size_t wanted) {
  const std::size_t count = wanted - here;
  if (missing.size() != count)
    return fmt::format("{} ({} of {} joined)", counted(count, "worker"), here, wanted);
  std::string names;
  for (std::size_t i = 0; i < count && i < kNamesSaid; ++i)
    names += (i > 0 ? ", " : "") + missing[i];
  if (count > kNamesSaid) names += fmt::format(" and {} more", count - kNamesSaid);
  return fmt::format("{} ({} of {} joined)", names, here, counted(wanted, "worker"));
}

}  // namespace rubato::scheduler
