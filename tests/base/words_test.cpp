// Counts in words, and lines that are said more and more rarely.
#include "base/words.hpp"

#include <doctest/doctest.h>

#include "base/growing_interval.hpp"

namespace rubato {
namespace {

constexpr Instant at(int seconds) {
  return Instant{} + Duration::from_seconds(seconds);
}

TEST_CASE("words: one of a thing has no s, and the plural follows the rules of English") {
  CHECK(counted(1, "shard") == "1 shard");
  CHECK(counted(0, "shard") == "0 shards");
  CHECK(counted(1322, "class") == "1,322 classes");
  CHECK(counted(1'000'000, "sample") == "1,000,000 samples");
  CHECK(counted(2, "box") == "2 boxes");
  CHECK(counted(2, "category") == "2 categories");
  CHECK(counted(2, "day") == "2 days");
  CHECK(counted(2, "batch") == "2 batches");
  CHECK(counted(2, "plain feature") == "2 plain features");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(UINT64_MAX) == "18,446,744,073,709,551,615");
}

TEST_CASE("growing interval: twice as long each time, up to a limit") {
  GrowingInterval interval(Duration::from_seconds(5), Duration::from_seconds(30));
  for (const int seconds : {5, 10, 20, 30, 30})
    CHECK(interval.next() == Duration::from_seconds(seconds));
  interval.restart();
  CHECK(interval.next() == Duration::from_seconds(5));
}

TEST_CASE("repeated line: at once when it changes, and more and more rarely while it does not") {
  RepeatedLine line(Duration::from_seconds(10));
  CHECK(line.due(at(0), "a"));
  CHECK_FALSE(line.due(at(5), "a"));
  CHECK(line.due(at(10), "a"));
  CHECK_FALSE(line.due(at(25), "a"));
  CHECK(line.due(at(30), "a"));
  CHECK(line.due(at(31), "b"));
  CHECK_FALSE(line.due(at(40), "b"));
  CHECK(line.due(at(41), "b"));
}

}  // namespace
}  // namespace rubato
