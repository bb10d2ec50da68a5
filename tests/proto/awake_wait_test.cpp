#include "proto/awake_wait.hpp"

#include <doctest/doctest.h>

using namespace rubato;
using namespace rubato::proto;

namespace {

constexpr PeerId kPeer = 1, kOther = 2, kNobody = 0;
constexpr Duration kBrief = Duration{30'000};
constexpr Duration kLong = Duration::from_ms(1);

// A wait of such a length that ends with a message of `from`. Returns whether it began awake.
class Waits {
 public:
  bool one(Duration length, PeerId from) {
    const bool awake = wait_.begin(now_);
    now_ = now_ + length;
    wait_.end(now_, from);
    return awake;
  }
  // Short waits for kPeer until one begins awake; that one is long when `fails`.
  int short_ones_before_awake(bool fails) {
    for (int n = 0;; ++n) {
      REQUIRE(n <= AwakeWait::kShortMax);
      const bool awake = wait_.begin(now_);
      now_ = now_ + (awake && fails ? kLong : kBrief);
      wait_.end(now_, kPeer);
      if (awake) return n;
    }
  }

 private:
  AwakeWait wait_;
  Instant now_;
};

TEST_CASE("after some short waits for one peer the next begin awake") {
  Waits waits;
  waits.one(kBrief, kPeer);  // a new peer
  for (int i = 0; i < AwakeWait::kShortMin; ++i) CHECK_FALSE(waits.one(kBrief, kPeer));
  for (int i = 0; i < 100; ++i) CHECK(waits.one(kBrief, kPeer));
}

TEST_CASE("a long wait or another peer ends it") {
  for (const auto& [length, from] : {std::pair(kLong, kPeer), {kLong, kNobody}, {kBrief, kOther}}) {
    Waits waits;
    waits.short_ones_before_awake(false);
    waits.one(length, from);
    CHECK_FALSE(waits.one(kBrief, kPeer));
  }
}

// Its compute thread ends the long wait: no message, but a wake().
TEST_CASE("a worker that computes 1 ms before each commit never waits awake") {
  Waits waits;
  for (int i = 0; i < 1000; ++i) {
    CHECK_FALSE(waits.one(kLong, kNobody));
    CHECK_FALSE(waits.one(kBrief, kPeer));
  }
}

TEST_CASE("one that computes for a moment only stays awake") {
  Waits waits;
  for (int i = 0; i < AwakeWait::kShortMin; ++i) waits.one(kBrief, kPeer);
  for (int i = 0; i < 100; ++i) {
    CHECK(waits.one(kBrief, kNobody) == (i > 0));
    CHECK(waits.one(kBrief, kPeer));
  }
}

TEST_CASE("a server whose workers take turns never waits awake") {
  Waits waits;
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(waits.one(kBrief, i % 2 == 0 ? kPeer : kOther));
}

TEST_CASE("what was forgotten has to be seen again") {
  AwakeWait wait;
  Instant now;
  const auto begins_awake = [&] {
    const bool awake = wait.begin(now);
    wait.end(now, kPeer);
    return awake;
  };
  for (int i = 0; i <= AwakeWait::kShortMin; ++i) CHECK_FALSE(begins_awake());
  CHECK(begins_awake());
  wait.forget();
  for (int i = 0; i < AwakeWait::kShortMin; ++i) CHECK_FALSE(begins_awake());
  CHECK(begins_awake());
}

TEST_CASE("each failure doubles the short waits before the next attempt, and success halves them") {
  Waits waits;
  waits.one(kBrief, kPeer);
  int expected = AwakeWait::kShortMin;
  for (int i = 0; i < 20; ++i) {
    CHECK(waits.short_ones_before_awake(true) == expected);
    expected = std::min(2 * expected, AwakeWait::kShortMax);
  }
  for (int i = 0; i < 20; ++i) waits.short_ones_before_awake(false);
  waits.one(kLong, kPeer);  // a failure once more, the first of a new series
  CHECK(waits.short_ones_before_awake(false) == 2 * AwakeWait::kShortMin);
}

TEST_CASE("it looks again for as long as a short wait, unless somebody else had the core") {
  AwakeWait wait;
  Instant now;
  wait.begin(now);
  const int looks = static_cast<int>(AwakeWait::kShort.ns / 10'000);
  for (int i = 1; i <= looks; ++i) {
    now = now + Duration{10'000};
    CHECK(wait.stay(now) == (i < looks));
  }
  wait.begin(now);
  CHECK(wait.stay(now + Duration{1'000}));
  CHECK_FALSE(wait.stay(now + Duration{1'000} + AwakeWait::kAloneMax));
}

}  // namespace
