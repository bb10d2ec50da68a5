// The notices of a scheduler that lies: so many lines a minute, and the others are counted.
#include "proto/node_log.hpp"

#include <doctest/doctest.h>

namespace rubato::proto {
namespace {

TEST_CASE("node log: thirty notices a minute, then a line that says how many were left out") {
  NodeLog log;
  Instant now{1'000'000'000};
  log.push_notice(now, "");
  CHECK_FALSE(log.poll());
  for (int i = 0; i < 17'000; ++i) log.push_notice(now, "server 1 is silent");
  log.push("its own line");
  std::uint64_t said = 0;
  while (log.poll()) ++said;
  CHECK(said == NodeLog::kNoticesMax + 1);
  now = now + NodeLog::kNoticesIn;
  log.push_notice(now, "server 1 is back");
  CHECK(log.poll() == "server 1 is back (and 16970 more notices before it)");
  log.push_notice(now, "server 2 is silent");
  CHECK(log.poll() == "server 2 is silent");
}

}  // namespace
}  // namespace rubato::proto
