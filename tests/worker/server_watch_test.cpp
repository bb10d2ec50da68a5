// When a silent server is asked: soon where answers are quick, and not before that is known.
#include "worker/server_watch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

namespace rubato::worker {
namespace {

using Due = ServerWatch::Due;

constexpr Duration kMost = Duration::from_seconds(15);

struct Watched {
  ServerWatch watch{1, {kMost, Duration::from_seconds(600)}};
  Instant now{1};

  // An exchange whose answer comes after this long.
  void exchange(Duration silence) {
    watch.begin(now);
    const Instant end = now + silence;
    for (now = watch.due(0); now < end; now = watch.due(0)) watch.poll(0, now);
    now = end;
    watch.on_heard(0, now);
  }
  // Of a new exchange whose answer does not come: how long until the server is asked.
  Duration asks_after() {
    watch.begin(now);
    const Instant began = now;
    now = watch.due(0);
    CHECK(watch.poll(0, now) == Due::Probe);
    return now - began;
  }
};

TEST_CASE("server watch: it asks after four times the usual silence, at most after the limit") {
  for (const double usual : {0.2, 0.5, 2.0, 60.0}) {
    CAPTURE(usual);
    Watched it;
    for (std::uint32_t i = 0; i < kUsualKnown; ++i) {
      it.exchange(Duration::from_seconds(usual));
      if (i + 1 < kUsualKnown) CHECK(it.watch.due(0) - it.now >= kMost);  // too few have ended
    }
    const double expected = std::min(15.0, std::max(4 * usual, 0.5));
    CHECK(it.asks_after().seconds() == doctest::Approx(expected));
  }
}

TEST_CASE("server watch: a longer silence counts at once and fades") {
  Watched it;
  for (int i = 0; i < 10; ++i) it.exchange(Duration::from_ms(200));
  it.exchange(Duration::from_seconds(2));  // it was asked, and nothing was lost
  CHECK(it.asks_after().seconds() == doctest::Approx(8));
  for (int i = 0; i < 60; ++i) it.exchange(Duration::from_ms(200));
  CHECK(it.asks_after() < Duration::from_seconds(1));
}

TEST_CASE(
    "server watch: questions that are not answered come half as often each time, up to the limit") {
  Watched it;
  for (int i = 0; i < 10; ++i) it.exchange(Duration::from_ms(500));
  CHECK(it.asks_after() == Duration::from_seconds(2));
  Duration wait = Duration::from_seconds(2);
  for (int i = 0; i < 4; ++i) {
    const Instant asked = it.now;
    it.now = it.watch.due(0);
    CHECK(it.watch.poll(0, it.now) == Due::Probe);
    CHECK(it.now - asked == wait);
    wait = std::min(wait * 2, kMost);
  }
}

TEST_CASE("server watch: where the round trip is known the first question comes within a second") {
  Watched quick;
  quick.watch.on_round_trip(0, Duration::from_ms(20));
  CHECK(quick.asks_after() == kProbeLatest);
  for (int i = 0; i < 10; ++i) quick.exchange(Duration::from_seconds(30));
  CHECK(quick.asks_after() == kProbeLatest);
  Watched slow;
  slow.watch.on_round_trip(0, Duration::from_seconds(2));
  CHECK(slow.asks_after() == Duration::from_seconds(6));  // overdue, as RFC 6298 has it
  Watched slowest;
  slowest.watch.on_round_trip(0, Duration::from_seconds(20));
  CHECK(slowest.asks_after() == kMost);
}

// A worker whose exchange has lost something: it was asked, and answers within this time.
struct Lossy : Watched {
  explicit Lossy(Duration round_trip) {
    asks_after();
    now = now + round_trip;
    answer();
    watch.on_lost(0, now);
  }
  void answer() {
    watch.on_heard(0, now);
    CHECK(watch.on_answer(0, watch.number(0), now));
  }
  // How many questions there are until then. Each is answered after `round_trip`, if there is one.
  int questions(Duration time, std::optional<Duration> round_trip = {}) {
    int count = 0;
    const Instant end = now + time;
    for (Instant due = watch.due(0); due < end; due = watch.due(0)) {
      now = due;
      if (watch.poll(0, now) != Due::Probe) continue;
      ++count;
      if (!round_trip) continue;
      now = now + *round_trip;
      answer();
    }
    now = end;
    return count;
  }
};

TEST_CASE("server watch: after a loss the round trip of the question counts, at once") {
  Lossy it(Duration::from_ms(300));
  CHECK((it.watch.due(0) - it.now).seconds() == doctest::Approx(0.9));
  it.now = it.now + Duration::from_ms(300);
  it.watch.on_heard(0, it.now);
  CHECK(it.asks_after().seconds() == doctest::Approx(0.9));  // in the next exchange, too
  Lossy quick(Duration::from_ms(2));
  CHECK(quick.watch.due(0) - quick.now == kProbeSoonestLossy);
}

TEST_CASE("server watch: on a lossy link the next question comes within a quarter of the silence") {
  for (const bool answers : {true, false}) {
    CAPTURE(answers);
    Lossy it(Duration::from_ms(4));
    const Duration trip = Duration::from_ms(4);
    const auto ask = [&](double seconds) {
      return it.questions(Duration::from_seconds(seconds),
                          answers ? std::optional(trip) : std::nullopt);
    };
    // A second in which nothing comes has a handful of them, and a minute not many more.
    const int first = ask(1);
    CHECK(first >= 6);
    CHECK(first <= 12);
    const int rest = ask(59);
    CHECK(rest >= 10);
    CHECK(rest <= 22);
    if (answers) continue;
    it.watch.on_heard(0, it.now);  // the answer to the last one was only late
    CHECK(it.watch.on_answer(0, it.watch.number(0), it.now));
  }
}

TEST_CASE("server watch: on a lossy link a chunk that comes, or is sent again, is news") {
  Lossy it(Duration::from_ms(4));
  it.questions(Duration::from_seconds(20), Duration::from_ms(4));
  CHECK(it.questions(Duration::from_seconds(5), Duration::from_ms(4)) <= 2);
  SUBCASE("comes") {
    it.watch.on_heard(0, it.now);
    it.watch.on_more(0, it.now);
    CHECK(it.questions(Duration::from_seconds(5), Duration::from_ms(4)) > 2);
  }
  SUBCASE("is sent again") {
    it.watch.on_lost(0, it.now);
    CHECK(it.watch.due(0) - it.now < Duration::from_ms(100));
  }
}

TEST_CASE("server watch: a link is sound again after exchanges enough that lost nothing") {
  Lossy it(Duration::from_ms(20));
  for (std::uint32_t i = 0; i < kSoundAgain; ++i) {
    CHECK(it.asks_after() < Duration::from_ms(100));
    it.now = it.now + Duration::from_ms(200);
    it.watch.on_heard(0, it.now);
  }
  CHECK(it.asks_after() >= kProbeSoonest);
}

TEST_CASE("server watch: a lossy link is no server that is away, until a second is over") {
  Lossy it(Duration::from_ms(4));
  CHECK(it.questions(Duration::from_ms(900)) > 2);
  CHECK_FALSE(it.watch.is_away(0));
  it.questions(Duration::from_seconds(1));
  CHECK(it.watch.is_away(0));
}

TEST_CASE(
    "server watch: a first question that is lost is asked again as soon as its answer is late") {
  Watched it;
  it.exchange(Duration::from_ms(200));
  CHECK(it.asks_after() == kMost);
  for (const double wait : {0.8, 1.6, 3.2}) {
    const Instant asked = it.now;
    it.now = it.watch.due(0);
    CHECK(it.watch.poll(0, it.now) == Due::Probe);
    CHECK((it.now - asked).seconds() == doctest::Approx(wait));
  }
}

}  // namespace
}  // namespace rubato::worker
