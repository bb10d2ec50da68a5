// ADSP's promise: at a checkpoint all workers have committed equally often, whatever their speeds.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>

#include "tests/sync/adsp_world.hpp"

namespace rubato::sync {
namespace {

// Workers of step times 0.1 to 3 s with up to `jitter_max` tenths of jitter and commits of up to 1
// s.
std::vector<WorldWorker> any_workers(int jitter_max) {
  std::vector<WorldWorker> workers;
  const int count = *rc::gen::inRange(2, 7);
  for (int i = 0; i < count; ++i) {
    workers.push_back({.step_seconds = 0.1 * *rc::gen::inRange(1, 31),
                       .jitter = 0.1 * *rc::gen::inRange(0, jitter_max + 1),
                       .overhead_seconds = 0.1 * *rc::gen::inRange(0, 11)});
  }
  return workers;
}

}  // namespace

TEST_CASE("at a checkpoint every worker is within one commit of the target") {
  CHECK(rc::check([] {
    AdspOptions options;
    // A step and a commit take up to 4.9 s: 60 / 4.9 = 12 commits are possible.
    options.fixed_rate = *rc::gen::inRange(1, 11);
    AdspWorld world(options, any_workers(3), *rc::gen::inRange(1, 1 << 30));
    const WorldResult result = world.run(900, [](double) { return 1.0; });
    RC_ASSERT(result.counts.size() == 15u);
    std::uint64_t target = 0;
    for (const auto& counts : result.counts) {
      target += static_cast<std::uint64_t>(*options.fixed_rate);
      for (const std::uint64_t count : counts) {
        RC_ASSERT(count + 1 >= target);
        RC_ASSERT(count <= target + 1);
      }
    }
  }));
}

TEST_CASE("while the rate is searched, up to the cap, counts differ by at most three") {
  CHECK(rc::check([] {
    AdspWorld world({}, any_workers(0), *rc::gen::inRange(1, 1 << 30));
    const double exponent = 0.1 * *rc::gen::inRange(-10, 11);
    const WorldResult result =
        world.run(3000, [&](double rate) { return std::pow(rate, exponent); });
    for (const auto& counts : result.counts) {
      const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
      RC_ASSERT(*high - *low <= 3u);
    }
  }));
}

TEST_CASE("a commit is never later than its interval, one step and its own overhead") {
  CHECK(rc::check([] {
    const std::vector<WorldWorker> workers = any_workers(3);
    AdspOptions options;
    options.fixed_rate = 4;
    AdspWorld world(options, workers, 1);
    const WorldResult result = world.run(600, [](double) { return 1.0; });
    for (std::size_t i = 0; i < workers.size(); ++i) {
      // Who is one commit ahead is told to make three: 20 s apart.
      const double limit = 20 + 1.3 * workers[i].step_seconds + workers[i].overhead_seconds;
      for (const double gap : result.commit_gaps[i]) RC_ASSERT(gap <= limit + 1e-6);
    }
  }));
}

}  // namespace rubato::sync
