// BatchTune: who gets which mini-batch, and easgd's pull: the tuners that move a commit's weight.
#include "sync/batch_tuner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.hpp"
#include "sync/adsp.hpp"
#include "sync/easgd.hpp"
#include "tests/sync/trace.hpp"

namespace rubato::sync {

TEST_CASE("BatchTune: parts are in proportion to speed, whole, within limits, and add up") {
  CHECK(proportional_parts({1, 1, 2}, 128, 128) == std::vector<std::uint32_t>{32, 32, 64});
  CHECK(proportional_parts({2, 2, 0.5}, 96, 128) == std::vector<std::uint32_t>{43, 43, 10});
  CHECK(proportional_parts({1, 1e9}, 64, 48) == std::vector<std::uint32_t>{16, 48});
  CHECK(proportional_parts({1e9, 1, 1, 1, 1}, 5, 4) == std::vector<std::uint32_t>{1, 1, 1, 1, 1});
  CHECK(proportional_parts({5}, 7, 7) == std::vector<std::uint32_t>{7});
}

namespace {

// The definition: one each, then each sample to who would end first with it.
std::vector<std::uint32_t> dealt_one_by_one(const std::vector<double>& speeds, std::uint64_t total,
                                            std::uint32_t most) {
  std::vector<std::uint32_t> parts(speeds.size(), 1);
  for (std::uint64_t left = total - speeds.size(); left > 0; --left) {
    std::size_t first = speeds.size();
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      if (parts[i] == most) continue;
      if (first == speeds.size() || (parts[i] + 1) / speeds[i] < (parts[first] + 1) / speeds[first])
        first = i;
    }
    ++parts[first];
  }
  return parts;
}

}  // namespace

TEST_CASE("BatchTune: parts are as if dealt one by one, ties and limits included") {
  Rng rng(5);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::vector<double> speeds(1 + rng.below(8));
    for (double& speed : speeds) {
      speed = rng.below(2) == 0 ? static_cast<double>(1 + rng.below(4)) : 0.01 + rng.uniform();
      if (rng.below(8) == 0) speed *= 1e9;
    }
    const auto batch = static_cast<std::uint32_t>(1 + rng.below(40));
    const auto most = static_cast<std::uint32_t>(batch + rng.below(3 * batch));
    const std::uint64_t total = speeds.size() * batch;
    CHECK(proportional_parts(speeds, total, most) == dealt_one_by_one(speeds, total, most));
  }
}

// Dealt one by one this would be ten thousand million samples.
TEST_CASE("BatchTune: large mini-batches take no longer to deal than small ones") {
  const auto parts = proportional_parts({1, 1, 2, 4}, 8'000'000'000, 4'000'000'000);
  CHECK(parts ==
        std::vector<std::uint32_t>{1'000'000'000, 1'000'000'000, 2'000'000'000, 4'000'000'000});
}

// No whole split that adds up lets the last worker end earlier.
TEST_CASE("BatchTune: a round of any other split takes no less") {
  Rng rng(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> speeds;
    for (int i = 0; i < 3; ++i) speeds.push_back(0.2 + rng.uniform());
    const std::uint32_t total = 24, most = 16;
    const auto parts = proportional_parts(speeds, total, most);
    CHECK(std::accumulate(parts.begin(), parts.end(), 0u) == total);
    const auto end = [&](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
      return std::max({a / speeds[0], b / speeds[1], c / speeds[2]});
    };
    const double ours = end(parts[0], parts[1], parts[2]);
    for (std::uint32_t a = 1; a <= most; ++a)
      for (std::uint32_t b = 1; b <= most; ++b)
        if (a + b < total && total - a - b <= most) CHECK(ours <= end(a, b, total - a - b) + 1e-12);
  }
}

TEST_CASE("BatchTune: told once all have timed five steps, again when 10 % off, never for jitter") {
  BatchTuner tuner(4, 32);
  const std::string trace = R"(
0 join 0
0 join 1
0 start
1 progress 0 1 1 0.1 1 0
1 progress 1 1 3 0.1 1 0
5 progress 0 5 1 0.1 5 0
9 progress 1 5 3 0.1 5 0 -> R=48 "worker 0 takes 32.0 of 42.7 samples a second"; )"
                            R"(R=16 "worker 1 takes 10.7 of 42.7 samples a second"; )"
                            R"(0:batch 48 weight 1.5 1:batch 16 weight 0.5
10 progress 0 6 1 0.1 6 0
11 progress 0 7 1.5 0.1 7 48
11 progress 1 7 1.5 0.1 7 16
12 progress 0 11 1.52 0.1 11 48
12 progress 1 11 1.5 0.1 11 16
13 progress 1 12 3 0.1 12 16 -> R=55 "worker 0 takes 31.6 of 36.9 samples a second"; )"
                            R"(R=9 "worker 1 takes 5.3 of 36.9 samples a second"; )"
                            R"(0:batch 55 weight 1.71875 1:batch 9 weight 0.28125
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("BatchTune: the sum stays m B when workers come and go") {
  BatchTuner tuner(4, 10);
  std::map<std::uint32_t, std::uint32_t> batch;
  const auto report = [&](std::uint32_t id, double seconds, std::uint64_t steps) {
    tuner.on_progress({}, {id},
                      {.steps = steps,
                       .commits = steps,
                       .step_time = Duration::from_seconds(seconds * (batch[id] ? batch[id] : 10)),
                       .overhead = {},
                       .batch = batch[id]});
  };
  const auto take = [&] {
    while (const auto order = tuner.poll_order()) {
      batch[order->worker.value] = order->directive.batch;
      CHECK(order->directive.weight == doctest::Approx(order->directive.batch / 10.0));
    }
  };
  const auto sum = [&] {
    std::uint32_t all = 0;
    for (const auto& [id, b] : batch) all += b;
    return all;
  };
  std::uint64_t steps = 0;
  const auto play = [&](const std::vector<std::uint32_t>& ids) {
    for (int i = 0; i < 30; ++i, ++steps)
      for (const std::uint32_t id : ids) {
        report(id, 0.1 * (id + 1), steps + 1);
        take();
      }
  };
  for (std::uint32_t id = 0; id < 3; ++id) tuner.on_join({}, {id});
  play({0, 1, 2});
  CHECK(sum() == 30);
  CHECK(batch[0] > 2 * batch[2]);
  tuner.on_leave({}, {0});
  batch.erase(0);
  take();
  play({1, 2});
  CHECK(sum() == 20);
  tuner.on_join({}, {3});
  play({1, 2, 3});
  CHECK(sum() == 30);
  CHECK(batch[1] > batch[2]);
  CHECK(batch[2] > batch[3]);
}

TEST_CASE("ADSP with batches in proportion to speed: an order repeats what the other tuner said") {
  BatchedAdsp tuner({.check_period = Duration::from_seconds(100), .fixed_rate = 4}, 100, 32);
  std::map<std::uint32_t, Directive> told;
  const auto take = [&] {
    while (const auto order = tuner.poll_order()) told[order->worker.value] = order->directive;
  };
  for (const std::uint32_t id : {0u, 1u}) tuner.on_join({}, {id});
  tuner.on_start({});
  take();
  CHECK(told[0] == Directive{.commit_rate = 4});
  CHECK(told[1] == Directive{.commit_rate = 4});
  for (const std::uint64_t steps : {1u, 5u}) {
    for (const std::uint32_t id : {0u, 1u})
      tuner.on_progress(at_seconds(static_cast<double>(steps)), {id},
                        {.steps = steps,
                         .commits = 1,
                         .step_time = Duration::from_seconds(id == 0 ? 1 : 3),
                         .overhead = {}});
    take();
  }
  CHECK(told[0] == Directive{.commit_rate = 4, .weight = 1.5, .batch = 48});
  CHECK(told[1] == Directive{.commit_rate = 4, .weight = 0.5, .batch = 16});
  told.clear();
  REQUIRE(tuner.poll_wakeup() == at_seconds(100));
  tuner.on_wakeup(at_seconds(100));  // both are 3 commits behind the target and owe 4 more
  take();
  CHECK(told[0] == Directive{.commit_rate = 7, .weight = 1.5, .batch = 48});
  CHECK(told[1] == Directive{.commit_rate = 7, .weight = 0.5, .batch = 16});
}

TEST_CASE("mini-batches: step times of nothing or of years, from a worker that lies") {
  BatchTuner tuner(4, 10);
  std::map<std::uint32_t, std::uint32_t> batch{{0, 10}, {1, 10}};
  for (const std::uint32_t id : {0u, 1u}) tuner.on_join({}, {id});
  std::uint64_t steps = 0;
  for (const std::int64_t ns : {1L << 57, 0L, 1L, 0L, 1L << 57, 1'000'000L}) {
    for (int i = 0; i < 8; ++i) {
      ++steps;
      for (const std::uint32_t id : {0u, 1u})
        tuner.on_progress({}, {id},
                          {.steps = steps,
                           .step_time = id == 0 && i > 2 ? Duration{ns} : Duration::from_ms(1),
                           .batch = batch[id] == 10 ? 0 : batch[id]});
      while (const auto order = tuner.poll_order()) {
        batch[order->worker.value] = order->directive.batch;
        CHECK(is_valid(order->directive));
      }
      CHECK(batch[0] + batch[1] == 20);
      CHECK(batch[0] >= 1);
      CHECK(batch[0] <= 19);
    }
  }
}

TEST_CASE("EASGD: alpha is the moving rate over m, told to all when m changes") {
  EasgdTuner tuner({.moving_rate = 0.9});
  const std::string trace = R"(
0 join 0
0 join 1
0 start -> R=0.45 "moving rate 0.9 over 2 workers"; 0:weight 0.45 1:weight 0.45
5 join 2 -> R=0.3 "moving rate 0.9 over 3 workers"; 0:weight 0.3 1:weight 0.3 2:weight 0.3
9 leave 0 -> R=0.45 "moving rate 0.9 over 2 workers"; 1:weight 0.45 2:weight 0.45
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

}  // namespace rubato::sync
