#include "emulation/device_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "emulation/cluster_plan.hpp"

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
  ClusterPlan plan;
  plan.seed = 3;
  plan.workers = {{.name = "a", .device = {.step_seconds = 0.5, .jitter = 0.2}, .link = {}},
                  {.name = "b", .device = {.step_seconds = 0.5, .jitter = 0.2}, .link = {}},
                  {.name = "c", .device = {.step_seconds = 0.5, .jitter = 0}, .link = {}}};
  const auto draw = [](StepTimes times) {
    std::vector<Duration> steps;
    for (int i = 0; i < 5; ++i) steps.push_back(times.next(1));
    return steps;
  };
  const auto first = draw(make_step_times(plan, 0));
  CHECK(first == draw(make_step_times(plan, 0)));
  CHECK(first != draw(make_step_times(plan, 1)));
  CHECK(draw(make_step_times(plan, 2)) == std::vector(5, Duration::from_seconds(0.5)));
  plan.seed = 4;
  CHECK(first != draw(make_step_times(plan, 0)));
}
