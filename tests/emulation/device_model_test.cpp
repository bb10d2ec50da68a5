#include "emulation/device_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cluster/cluster_plan.hpp"

using namespace rubato;
using namespace rubato::emulation;

TEST_CASE("the lognormal factor has mean 1 and the deviation asked for") {
  for (const double deviation : {0.05, 0.3, 1.0}) {
    Rng rng(7);
    constexpr int kDraws = 400'000;
    double sum = 0, squares = 0, least = 1;
    for (int i = 0; i < kDraws; ++i) {
      const double factor = lognormal_factor(rng, deviation);
      least = std::min(least, factor);
      sum += factor;
      squares += factor * factor;
    }
    const double mean = sum / kDraws;
    CAPTURE(deviation);
    CHECK(least > 0);
    CHECK(mean == doctest::Approx(1).epsilon(0.01));
    CHECK(std::sqrt(squares / kDraws - mean * mean) == doctest::Approx(deviation).epsilon(0.03));
  }
}

TEST_CASE("without deviation the factor is exactly 1 and draws nothing") {
  Rng rng(7), untouched(7);
  CHECK(lognormal_factor(rng, 0) == 1);
  CHECK(rng.next() == untouched.next());
}

TEST_CASE("step times follow from seed and worker alone") {
  cluster::ClusterPlan plan;
  plan.seed = 3;
  plan.workers = {{.name = "a", .device = {.step_seconds = 0.5, .jitter = 0.2}, .link = {}},
                  {.name = "b", .device = {.step_seconds = 0.5, .jitter = 0.2}, .link = {}},
                  {.name = "c", .device = {.step_seconds = 0.5, .jitter = 0}, .link = {}}};
  const auto draw = [](StepTimes times) {
    std::vector<Duration> steps;
    for (int i = 0; i < 5; ++i) steps.push_back(times.next({}, 1));
    return steps;
  };
  const auto first = draw(make_step_times(plan, 0));
  CHECK(first == draw(make_step_times(plan, 0)));
  CHECK(first != draw(make_step_times(plan, 1)));
  CHECK(draw(make_step_times(plan, 2)) == std::vector(5, Duration::from_seconds(0.5)));
  plan.seed = 4;
  CHECK(first != draw(make_step_times(plan, 0)));
}

TEST_CASE("a slow spell begins and ends, once or again and again") {
  cluster::SlowSpells once{.factor = 5, .after_seconds = 10, .seconds = 4};
  CHECK_FALSE(slow_at({}, 0));
  CHECK_FALSE(slow_at(once, 9.9));
  CHECK(slow_at(once, 10));
  CHECK(slow_at(once, 13.9));
  CHECK_FALSE(slow_at(once, 14));
  CHECK_FALSE(slow_at(once, 40));
  once.every_seconds = 30;
  CHECK_FALSE(slow_at(once, 39.9));
  CHECK(slow_at(once, 40));
  CHECK_FALSE(slow_at(once, 44));
}

TEST_CASE(
    "a step that begins in a slow spell takes the factor longer, time counts from the first") {
  const cluster::DeviceModel device{.step_seconds = 0.5,
                                    .slow = {.factor = 4, .after_seconds = 1, .seconds = 1}};
  StepTimes times(device, 1, Rng(1));
  const auto at = [](double seconds) { return Instant{} + Duration::from_seconds(7 + seconds); };
  CHECK(times.next(at(0), 1) == Duration::from_seconds(0.5));
  CHECK(times.next(at(0.5), 1) == Duration::from_seconds(0.5));
  CHECK(times.next(at(1), 1) == Duration::from_seconds(2));
  CHECK(times.next(at(3), 1) == Duration::from_seconds(0.5));
}

TEST_CASE("drift compounds by the hour, from time 0 of the clock on") {
  const cluster::DeviceModel device{.step_seconds = 0.5, .drift = 0.44};
  StepTimes times(device, 1, Rng(1));
  const Instant began = Instant{} + Duration::from_seconds(7);
  const auto at = [&](double hours) { return began + Duration::from_seconds(3600 * hours); };
  CHECK(times.next(at(0), 1).seconds() == doctest::Approx(0.5));
  CHECK(times.next(at(0.5), 1).seconds() == doctest::Approx(0.5 * 1.2));
  CHECK(times.next(at(2), 1).seconds() == doctest::Approx(0.5 * 1.44 * 1.44));
  times.begin_clock(at(1));
  CHECK(times.next(at(0.5), 1).seconds() == doctest::Approx(0.5));  // before time 0
  CHECK(times.next(at(2), 1).seconds() == doctest::Approx(0.5 * 1.44));
  CHECK(drift_factor(-0.5, Duration::from_seconds(7200)) == doctest::Approx(0.25));
  CHECK(drift_factor(0, Duration::from_seconds(1e8)) == 1);
}

TEST_CASE("drift beside jitter keeps its mean") {
  StepTimes times({.step_seconds = 0.5, .jitter = 0.3, .drift = 1}, 1, Rng(3));
  times.begin_clock({});
  constexpr int kDraws = 100'000;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i)
    sum += times.next(Instant{} + Duration::from_seconds(3600), 1).seconds();
  CHECK(sum / kDraws == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("a cluster file names the slow spells of a worker") {
  const auto parse = [](const std::string& lines) {
    return cluster::parse_cluster(
        "[stop]\nmax_steps = 1\n[[workers]]\nname = \"w\"\nstep_seconds = 1\n" + lines, "edge.toml",
        "");
  };
  const auto config = parse(
      "slow_factor = 5\nslow_after_seconds = 10\nslow_seconds = 4\n"
      "slow_every_seconds = 30\n");
  REQUIRE(config.has_value());
  const cluster::SlowSpells& slow = config->workers.at(0).device.slow;
  CHECK(slow.factor == 5);
  CHECK(slow.after_seconds == 10);
  CHECK(slow.seconds == 4);
  CHECK(slow.every_seconds == 30);
  const auto endless = parse("slow_factor = 5\n");
  REQUIRE_FALSE(endless.has_value());
  CHECK(endless.error().message ==
        "edge.toml:6: workers[0].slow_factor = 5: slow_factor above 1 and slow_seconds above 0 go "
        "together");
  CHECK_FALSE(parse("slow_seconds = 4\n").has_value());
  CHECK_FALSE(parse("slow_factor = 5\nslow_seconds = 4\nslow_every_seconds = 3\n").has_value());
}
