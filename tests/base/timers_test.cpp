#include "base/timers.hpp"

#include <doctest/doctest.h>

namespace rubato {
namespace {

enum class Bell { Morning, Noon, Night };
using Bells = Timers<Bell, Bell::Night>;

constexpr Instant at(std::int64_t ns) {
  return Instant{ns};
}

TEST_CASE("earliest: of those that are there") {
  CHECK_FALSE(earliest({}));
  CHECK_FALSE(earliest({std::nullopt, std::nullopt}));
  CHECK(earliest({std::nullopt, at(7), at(5), at(6)}) == at(5));
}

TEST_CASE("timers: the next one is the earliest that is set") {
  Bells bells;
  CHECK_FALSE(bells.next());
  bells.set(Bell::Noon, at(12));
  bells.set(Bell::Night, at(24));
  CHECK(bells.next() == at(12));
  bells.set(Bell::Morning, at(6));
  CHECK(bells.next() == at(6));
  bells.stop(Bell::Morning);
  CHECK_FALSE(bells.at(Bell::Morning));
  CHECK(bells.next() == at(12));
  bells.set(Bell::Noon, at(36));
  CHECK(bells.next() == at(24));
  bells.stop_all();
  CHECK_FALSE(bells.next());
}

TEST_CASE("timers: one is due from its instant on, until it is set anew") {
  Bells bells;
  CHECK_FALSE(bells.due(Bell::Noon, at(99)));
  bells.set(Bell::Noon, at(12));
  CHECK_FALSE(bells.due(Bell::Noon, at(11)));
  CHECK(bells.due(Bell::Noon, at(12)));
  CHECK(bells.due(Bell::Noon, at(13)));
  bells.set(Bell::Noon, at(24));
  CHECK_FALSE(bells.due(Bell::Noon, at(13)));
}

}  // namespace
}  // namespace rubato
