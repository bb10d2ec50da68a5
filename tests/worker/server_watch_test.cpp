// When a silent server is asked: soon where answers are quick, and not before that is known.
#include "worker/server_watch.hpp"

#include <doctest/doctest.h>

#include <algorithm>

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

TEST_CASE("server watch: a longer silence counts at once and fades, one with a loss never counts") {
  Watched it;
  for (int i = 0; i < 10; ++i) it.exchange(Duration::from_ms(200));
  it.exchange(Duration::from_seconds(2));  // it was asked, and nothing was lost
  CHECK(it.asks_after().seconds() == doctest::Approx(8));
  it.now = it.now + Duration::from_ms(20);
  CHECK(it.watch.on_answer(0, it.watch.number(0), it.now));
  it.watch.on_lost(0);
  it.now = it.now + Duration::from_seconds(30);
  it.watch.on_heard(0, it.now);
  CHECK(it.asks_after().seconds() == doctest::Approx(8 * 0.9));
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

TEST_CASE("server watch: after a loss the round trip of the question counts, at once") {
  Watched it;
  CHECK(it.asks_after() == kMost);
  it.now = it.now + Duration::from_ms(300);
  CHECK(it.watch.on_answer(0, it.watch.number(0), it.now));
  it.watch.on_lost(0);
  CHECK((it.watch.due(0) - it.now).seconds() == doctest::Approx(0.9));  // 1.2 s after the question
  it.watch.on_heard(0, it.now);
  CHECK(it.asks_after().seconds() == doctest::Approx(1.2));  // in the next exchange, too
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
