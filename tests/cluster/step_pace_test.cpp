// The pace of stretched steps, on a clock of our own.
#include "cluster/step_pace.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/rng.hpp"

namespace rubato::cluster {
namespace {

constexpr Duration kAsked = Duration::from_ms(10);

// Steps one after the other: each computes for so long, and the thread wakes up so late.
struct Worker {
  StepPace pace;
  Instant now;
  int steps = 0;
  int warnings = 0;
  std::string warned;

  void step(Duration computes, Duration wakes_late = {}) {
    const Instant nominal = now + kAsked;
    now = std::max(now + computes, pace.due(nominal)) + wakes_late;
    pace.on_end(nominal, now, kAsked);
    ++steps;
    if (const auto line = pace.poll_warning()) {
      ++warnings;
      warned = *line;
    }
  }
  double mean() const { return (now - Instant{}).seconds() / steps; }
};

TEST_CASE("pace: steps that end late now and then keep their mean") {
  for (const double factor : {1.5, 2.0, 5.0, 20.0}) {
    CAPTURE(factor);
    Worker worker;
    Rng rng(1);
    for (int i = 0; i < 10'000; ++i)
      worker.step(kAsked * (1 / factor), kAsked * (rng.uniform() * (1 - 1 / factor)));
    CHECK(worker.mean() == doctest::Approx(kAsked.seconds()).epsilon(0.003));
    CHECK(worker.warnings == 0);
  }
}

TEST_CASE("pace: a machine that is busy for a while is made up for, without a word") {
  Worker worker;
  for (int i = 0; i < 400; ++i) worker.step(Duration::from_ms(25));  // 6 s behind
  CHECK(worker.pace.late() == Duration::from_seconds(6));
  for (int i = 0; i < 2'000; ++i) worker.step(Duration::from_ms(5));
  CHECK(worker.pace.late() == Duration{});
  CHECK(worker.mean() == doctest::Approx(kAsked.seconds()));
  CHECK(worker.warnings == 0);
}

TEST_CASE("pace: a machine that is too slow says so once a minute, with its figures") {
  Worker worker;
  while (worker.now - Instant{} < Duration::from_seconds(310)) worker.step(Duration::from_ms(20));
  CHECK(worker.warnings == 5);
  CHECK(worker.warned ==
        "this box is too busy: steps take 0.02 s, the model says 0.01 s; times are too long");
  CHECK(worker.pace.late().seconds() == doctest::Approx(worker.now.seconds() / 2));
  // Ten seconds are made up for. What was given up stays late.
  const Duration late = worker.pace.late();
  for (int i = 0; i < 10'000; ++i) worker.step(Duration::from_ms(1));
  CHECK(late - worker.pace.late() == Duration::from_seconds(10));
}

TEST_CASE("pace: late comes from steps, not from the time between them") {
  Worker worker;
  for (int i = 0; i < 100; ++i) {
    worker.step(Duration::from_ms(1));
    worker.now = worker.now + Duration::from_seconds(2);  // a commit, and a wait for others
  }
  CHECK(worker.pace.late() == Duration{});
  CHECK(worker.warnings == 0);
}

}  // namespace
}  // namespace rubato::cluster
