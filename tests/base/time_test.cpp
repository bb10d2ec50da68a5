#include <doctest/doctest.h>

#include <limits>

#include "base/absence.hpp"
#include "base/time.hpp"

using rubato::Duration;
using rubato::Instant;

TEST_CASE("seconds are rounded to the nearest nanosecond, both ways") {
  CHECK(Duration::from_seconds(0.1).ns == 100'000'000);
  CHECK(Duration::from_seconds(1.4e-9).ns == 1);
  CHECK(Duration::from_seconds(1.6e-9).ns == 2);
  CHECK(Duration::from_seconds(-1.6e-9).ns == -2);
  CHECK(Duration::from_seconds(2.5).seconds() == 2.5);
}

TEST_CASE("more seconds than a clock can count are a century") {
  const Duration century = Duration::from_seconds(3.2e9);
  for (const double many : {1e10, 1e300, std::numeric_limits<double>::infinity()}) {
    CHECK(Duration::from_seconds(many) == century);
    CHECK(Duration::from_seconds(-many) == Duration{} - century);
  }
  CHECK(Duration::from_seconds(std::numeric_limits<double>::quiet_NaN()) == century);
  CHECK(Instant{} + century + century > Instant{} + century);
}

TEST_CASE("time does not turn back however much is added to it") {
  const Duration century = Duration::from_seconds(3.2e9);
  Instant now{};
  for (int i = 0; i < 5; ++i) {
    CHECK(now + century >= now);
    now = now + century;
  }
  CHECK(now == Instant{std::numeric_limits<std::int64_t>::max()});
}

TEST_CASE("milliseconds are truncated") {
  CHECK(Duration::from_ms(1500).seconds() == 1.5);
  CHECK(Duration{1'999'999}.ms() == 1);
}

TEST_CASE("an instant and a duration add up, two instants differ by a duration") {
  const Instant start{5};
  const Duration step = Duration::from_seconds(0.5);
  CHECK((start + step) - start == step);
  CHECK((start + step) - step == start);
  CHECK(start < start + step);
  CHECK((step * 3).seconds() == 1.5);
  Duration sum = step;
  sum += step;
  sum -= Duration::from_ms(200);
  CHECK(sum == Duration::from_ms(800));
}

TEST_CASE("absence: time in which this node was away is not another's silence") {
  const auto at = [](int seconds) { return Instant{} + Duration::from_seconds(seconds); };
  CHECK(rubato::heard_but_for_absence(at(5), at(10), at(9)) == at(5));
  CHECK(rubato::heard_but_for_absence(at(5), at(10), at(10)) == at(5));
  CHECK(rubato::heard_but_for_absence(at(5), at(10), at(1010)) == at(1005));
  CHECK(rubato::heard_but_for_absence(at(1009), at(10), at(1010)) == at(1010));
}

TEST_CASE("the steady clock never goes back") {
  Instant last = rubato::steady_now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = rubato::steady_now();
    REQUIRE(now >= last);
    last = now;
  }
}
