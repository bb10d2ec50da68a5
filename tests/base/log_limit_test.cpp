#include "base/log_limit.hpp"

#include <doctest/doctest.h>

namespace rubato {
namespace {

TEST_CASE("log limit: one line a minute for each source, with the number left out") {
  LogLimit limit;
  Instant now{5};
  CHECK(limit.admit(now, "10.0.0.1") == 0);
  for (int i = 0; i < 100; ++i) CHECK(!limit.admit(now + Duration::from_seconds(59), "10.0.0.1"));
  CHECK(limit.admit(now, "10.0.0.2") == 0);
  now = now + LogLimit::kInterval;
  CHECK(limit.admit(now, "10.0.0.1") == 100);
  CHECK(!limit.admit(now, "10.0.0.1"));
  CHECK(more_text(0).empty());
  CHECK(more_text(100) == " (and 100 more since the last line)");
}

TEST_CASE("log limit: sources without end share one line") {
  LogLimit limit;
  int lines = 0;
  for (int i = 0; i < 10'000; ++i)
    if (limit.admit(Instant{i}, std::to_string(i))) ++lines;
  CHECK(lines <= static_cast<int>(LogLimit::kSourcesMax) + 1);
  // Room comes back with time.
  CHECK(limit.admit(Instant{} + Duration::from_seconds(200), "new") == 0);
}

}  // namespace
}  // namespace rubato
