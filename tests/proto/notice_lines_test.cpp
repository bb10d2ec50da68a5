// The notices of a scheduler that lies: so many lines a minute, and the others are counted.
#include "proto/notice_lines.hpp"

#include <doctest/doctest.h>

namespace rubato::proto {
namespace {

TEST_CASE("notices: thirty lines a minute, then one that says how many were left out") {
  NoticeLines lines;
  Instant now{1'000'000'000};
  CHECK_FALSE(lines.take(now, ""));
  int said = 0;
  for (int i = 0; i < 17'000; ++i)
    if (lines.take(now, "server 1 is silent")) ++said;
  CHECK(said == NoticeLines::kLinesMax);
  now = now + NoticeLines::kInterval;
  CHECK(lines.take(now, "server 1 is back") ==
        "server 1 is back (and 16970 more notices before it)");
  CHECK(lines.take(now, "server 2 is silent") == "server 2 is silent");
}

}  // namespace
}  // namespace rubato::proto
