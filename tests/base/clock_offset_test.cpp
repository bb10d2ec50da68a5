// A clock that is ahead by a known amount, asked over links with known delays: the estimate is
// never further off than it says.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "base/clock_offset.hpp"

namespace rubato {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMillisecond;

// Asks at `asked`; the question takes `there`, the answer `back`; their clock is `ahead` of ours.
void ask(ClockOffset& offset, Instant asked, Duration there, Duration back, Duration ahead) {
  offset.add(asked, asked + there + ahead, asked + there + back);
}

Duration distance(Duration a, Duration b) {
  return a > b ? a - b : b - a;
}

TEST_CASE("clock offset: nothing is known before the first answer") {
  const ClockOffset offset;
  CHECK_FALSE(offset.estimate(Instant{kSecond}));
}

TEST_CASE("clock offset: exact over equal delays, bounded by half the round trip") {
  ClockOffset offset;
  const Duration ahead{-5 * kSecond};
  ask(offset, Instant{9 * kSecond}, {3 * kMillisecond}, {3 * kMillisecond}, ahead);
  const auto estimate = offset.estimate(Instant{9 * kSecond + 6 * kMillisecond});
  REQUIRE(estimate);
  CHECK(estimate->offset == ahead);
  CHECK(estimate->error == Duration{3 * kMillisecond});
}

TEST_CASE("clock offset: the shortest round trip counts, not the last") {
  ClockOffset offset;
  const Duration ahead{7 * kSecond};
  const auto add = [&](std::int64_t at_ms, std::int64_t there_us, std::int64_t back_us) {
    ask(offset, Instant{at_ms * kMillisecond}, {there_us * 1000}, {back_us * 1000}, ahead);
  };
  add(100, 9'000, 1'000);
  add(200, 60, 40);  // off by 10 us
  add(300, 500, 30'000);
  const auto estimate = offset.estimate(Instant{331 * kMillisecond});
  REQUIRE(estimate);
  CHECK(distance(estimate->offset, ahead) == Duration{10'000});
  CHECK(estimate->error < Duration{70'000});
}

TEST_CASE("clock offset: a short round trip of long ago gives way to a fresh one") {
  ClockOffset offset;
  // A drift of 50 us a second: the old sample is 10 ms wrong after 200 s.
  ask(offset, Instant{kSecond}, {1'000}, {1'000}, {4 * kSecond});
  ask(offset, Instant{201 * kSecond}, {kMillisecond}, {kMillisecond},
      {4 * kSecond + 10 * kMillisecond});
  const auto estimate = offset.estimate(Instant{202 * kSecond});
  REQUIRE(estimate);
  CHECK(estimate->offset == Duration{4 * kSecond + 10 * kMillisecond});
}

TEST_CASE("clock offset: two readers of one clock are told so") {
  ClockOffset offset;
  for (int i = 1; i <= 3; ++i)
    ask(offset, Instant{i * kSecond}, {i * 10'000}, {500'000}, Duration{});
  const auto estimate = offset.estimate(Instant{4 * kSecond});
  REQUIRE(estimate);
  CHECK(estimate->offset == Duration{});
  CHECK(estimate->error == Duration{});
}

TEST_CASE("clock offset: an answer older than its question is no sample") {
  ClockOffset offset;
  offset.add(Instant{5}, Instant{100}, Instant{4});
  CHECK(offset.samples() == 0);
  CHECK_FALSE(offset.estimate(Instant{6}));
}

TEST_CASE("clock offset: property: never off by more than it says, at any delays and drift") {
  rc::check([] {
    ClockOffset offset;
    // At least a second apart: two clocks that agree by chance are taken for one.
    const Duration ahead{*rc::gen::inRange<std::int64_t>(1, 1'000'000) * kSecond};
    const auto drift_ppm = *rc::gen::inRange<std::int64_t>(-100, 101);
    const auto ahead_at = [&](Instant t) { return ahead + Duration{t.ns / 1'000'000 * drift_ppm}; };
    Instant now{kSecond};
    const int questions = *rc::gen::inRange(1, 40);
    for (int i = 0; i < questions; ++i) {
      const Duration there{*rc::gen::inRange<std::int64_t>(1, 50 * kMillisecond)};
      const Duration back{*rc::gen::inRange<std::int64_t>(1, 50 * kMillisecond)};
      ask(offset, now, there, back, ahead_at(now + there));
      now = now + there + back + Duration{*rc::gen::inRange<std::int64_t>(0, 3 * kSecond)};
    }
    const auto estimate = offset.estimate(now);
    RC_ASSERT(estimate);
    // What clocks drift within one round trip, and rounding, beside.
    const Duration slack{20'000};
    RC_ASSERT(distance(estimate->offset, ahead_at(now)) <= estimate->error + slack);
  });
}

}  // namespace
}  // namespace rubato
