// bench/ends.hpp - where the two ends of a connection run. The kernel wakes threads where it likes,
// and once it has all of both ends on one core, a round trip takes a quarter of the time: which of
// two programs is so lucky is chance. Apart, each end has a core of its own, as if on two machines.
#pragma once

#include <fmt/format.h>

#include "base/cores.hpp"

namespace rubato::bench {

enum class Ends { Anywhere, Apart };

// Cores 0 and 1 of the result are for the server and the worker: a caller goes there by place()
// before it makes that end. Nothing is chosen for Anywhere, or where there is one core.
inline Cores cores_of(Ends ends) {
  const auto allowed = allowed_cores();
  if (ends == Ends::Anywhere || allowed.size() < 2) return {};
  return Cores::parse(fmt::format("{},{}", allowed[0], allowed[1])).value_or(Cores());
}

}  // namespace rubato::bench
