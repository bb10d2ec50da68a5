// base/absence.hpp - a node that was away itself (a frozen machine) heard nobody: its own absence
// is not another's silence.
// Pure: values in, a value out.
#pragma once

#include <algorithm>

#include "base/time.hpp"

namespace rubato {

// Another node was last heard at `heard`; what was due here at `due` is done at `now`, and if that
// is late, this node was away. Returns: `heard` moved on by the time away, at most to `now`. The
// silence before `due` still counts, so whoever is to ask again before it blames somebody has to be
// due more often than its patience lasts. Requires: heard <= now.
constexpr Instant heard_but_for_absence(Instant heard, Instant due, Instant now) {
  return now <= due ? heard : std::min(heard + (now - due), now);
}

}  // namespace rubato
