// ADSP's tuner with our search: targets, caps, joiners, windows, re-search.
#include "sync/adsp.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/sync/adsp_world.hpp"

namespace rubato::sync {
namespace {

std::vector<double> rates(const WorldResult& result) {
  std::vector<double> list;
  for (const Decision& decision : result.decisions) list.push_back(decision.value);
  return list;
}

const std::vector<WorldWorker> kThree = {{.step_seconds = 0.5, .overhead_seconds = 0.2},
                                         {.step_seconds = 0.5, .overhead_seconds = 0.2},
                                         {.step_seconds = 1.5, .overhead_seconds = 0.2}};

}  // namespace

TEST_CASE("the first search probes what a commit costs and starts where cost and delay balance") {
  AdspTuner tuner({}, 0);
  const std::string trace = R"(
0 join 0
0 join 1
0 start -> R=4 "until every worker has committed once"; 0:4 1:4
15 progress 0 1 0.5 0.3
16 progress 1 1 1.5 0.3 -> R=5 "a commit costs 0.600 s: search from R=5"; 0:5 1:5
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("R_cap: no more commits than the slowest can make, the byte budget binds as well") {
  const std::string start = R"(
0 join 0
0 join 1
0 start -> R=4 "until every worker has committed once"; 0:4 1:4
15 progress 0 1 0.5 0
)";
  SUBCASE("free commits, 8 s a step: 60 / 8 = 7") {
    AdspTuner tuner({}, 0);
    const std::string trace =
        start + "16 progress 1 1 8 0 -> R=7 \"a commit costs 0.000 s: search from R=7\"; 0:7 1:7\n";
    CHECK(replay_tuner(tuner, trace) == trace);
  }
  SUBCASE("1 MB up and down for two workers is 4 MB a round; 0.4 MB/s are 6 rounds") {
    AdspOptions options;
    options.bytes_per_second = 400'000;
    AdspTuner tuner(options, 1'000'000);
    const std::string trace =
        start + "16 progress 1 1 8 0 -> R=6 \"a commit costs 0.000 s: search from R=6\"; 0:6 1:6\n";
    CHECK(replay_tuner(tuner, trace) == trace);
  }
}

TEST_CASE("a commit that overlaps training costs nothing: the search starts at the cap") {
  AdspOptions options;
  options.overlap = true;
  AdspTuner tuner(options, 0);
  const std::string trace = R"(
0 join 0
0 start -> R=4 "until every worker has committed once"; 0:4
15 progress 0 1 1 2 -> R=20 "a commit costs 4.000 s: search from R=20"; 0:20
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("dC_i is at least 1 and at most R_cap") {
  AdspOptions options;
  options.fixed_rate = 2;
  AdspTuner tuner(options, 0);
  const std::string trace = R"(
0 join 0
0 join 1
0 start -> R=2 "fixed rate 2"; 0:2 1:2
50 progress 0 7 1 0
50 progress 1 0 20 0
60 wakeup -> 0:1 1:3
120 wakeup
180 wakeup
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE(
    "a joiner starts at the current minimum and gets its rate at once, a leaver is forgotten") {
  AdspOptions options;
  options.fixed_rate = 3;
  AdspTuner tuner(options, 0);
  const std::string trace = R"(
0 join 0
0 join 1
0 start -> R=3 "fixed rate 3"; 0:3 1:3
50 progress 0 3 1 0
50 progress 1 2 1 0
55 join 2 -> 2:1
60 wakeup -> 1:4 2:4
70 leave 1
110 progress 0 6 1 0
110 progress 2 4 1 0
120 wakeup -> 2:3
130 leave 0
130 leave 2
180 wakeup
190 join 3 -> 3:3
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("without any loss the rate stays where the search began") {
  AdspTuner tuner({}, 0);
  tuner.on_start({});
  tuner.on_join({}, {0});
  drain(tuner);
  for (int second = 1; second <= 3000; ++second) {
    tuner.on_wakeup(at_seconds(second));
    tuner.on_progress(at_seconds(second), {0},
                      {.steps = 1,
                       .commits = static_cast<std::uint64_t>(second) / 15,
                       .step_time = Duration::from_seconds(1),
                       .overhead = Duration::from_ms(300)});
  }
  std::vector<double> seen;
  while (const auto decision = tuner.poll_decision()) seen.push_back(decision->value);
  CHECK(seen == std::vector<double>{5});
}

TEST_CASE("losses that are no numbers, or come late, do not disturb a search") {
  AdspTuner tuner({}, 0);
  tuner.on_join({}, {0});
  tuner.on_start({});
  const double infinite = std::numeric_limits<double>::infinity();
  for (int second = 1; second <= 600; ++second) {
    const Instant now = at_seconds(second);
    tuner.on_wakeup(now);
    tuner.on_progress(now, {0},
                      {.steps = 1,
                       .commits = static_cast<std::uint64_t>(second),
                       .step_time = Duration::from_ms(500),
                       .overhead = {}});
    for (const double loss : {std::nan(""), infinite, -1.0, 0.0}) {
      tuner.on_evaluation(now, {.at = now, .loss = loss, .accuracy = 0});
    }
    const int ten_seconds_begun = second / 10 * 10;  // most come again and again
    tuner.on_evaluation(now, {.at = at_seconds(ten_seconds_begun), .loss = 1.0, .accuracy = 0});
  }
  std::string last;
  while (const auto decision = tuner.poll_decision()) last = decision->reason;
  CHECK(last.ends_with("keep 120"));
}

TEST_CASE("cheap commits that pay are made as often as the slowest worker can") {
  AdspWorld world({}, kThree, 1);
  const WorldResult result = world.run(900, [](double rate) { return rate; });
  CHECK(rates(result).back() == 35);  // 60 / (1.5 + 0.2)
  CHECK(result.decisions.back().at.seconds() < 240);
}

TEST_CASE("commits that bring nothing leave the rate where it started") {
  AdspWorld world({}, kThree, 1);
  const WorldResult result = world.run(900, [](double) { return 1.0; });
  CHECK(rates(result) == std::vector<double>{4, 9, 18, 9, 4, 9, 9});
}

TEST_CASE("dear commits that bring nothing are made less often") {
  std::vector<WorldWorker> workers = kThree;
  for (WorldWorker& worker : workers) worker.overhead_seconds = 2;
  AdspWorld world({}, workers, 1);
  const WorldResult result = world.run(1200, [](double rate) { return std::pow(rate, -0.8); });
  CHECK(rates(result).back() == 1);
}

TEST_CASE("a window opens after every worker committed at its rate, and spans two intervals") {
  AdspWorld world({}, {{.step_seconds = 0.5, .overhead_seconds = 5}, {.step_seconds = 10}}, 1);
  const WorldResult result = world.run(1200, [](double) { return 1.0; });
  REQUIRE(result.decisions.size() > 3);
  for (std::size_t i = 2; i + 1 < result.decisions.size(); ++i) {
    const double interval = 60 / result.decisions[i].value;
    const double length = (result.decisions[i + 1].at - result.decisions[i].at).seconds();
    CHECK(length >= 2 * interval);
    CHECK(length >= 30);
  }
}

TEST_CASE("the loss 30 % above that of the checkpoint before begins a search at once") {
  AdspOptions options;
  options.reward = RewardKind::Paper;
  AdspTuner tuner(options, 0);
  const std::string trace = R"(
0 join 0
0 start -> R=1 "the first epoch: search from R=1"; 0:1
0 eval 2
30 eval 1.5
60 eval 1.2 -> R=2 "R=1 (window 60 s, 3 samples); try 2"; 0:2
90 eval 1.2
120 wakeup -> 0:4
120 eval 1.2 -> R=1 "R=2: reward 0.00e+00 <= R=1: 1.30e-02 (window 60 s, 3 samples); keep 1"; 0:1
180 wakeup -> 0:2
239 eval 1.5
240 wakeup -> 0:3
299 eval 1.96
300 wakeup -> R=1 "loss 1.9600 is 31 % above that of the checkpoint before: search from R=1"; 0:1
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE(
    "warm start: a later epoch begins at the last rate, and with the paper's reward one below") {
  AdspOptions options;
  options.epoch = Duration::from_seconds(400);
  const auto flat = [](double) { return 1.0; };
  const auto reason_after = [](const WorldResult& result, double seconds) {
    for (const Decision& each : result.decisions) {
      if (each.at.seconds() >= seconds && each.reason.starts_with("a new epoch"))
        return each.reason;
    }
    return std::string("none");
  };
  CHECK(reason_after(AdspWorld(options, kThree, 1).run(900, flat), 400) ==
        "a new epoch: search from R=9");
  options.reward = RewardKind::Paper;
  const auto three_best = [](double rate) { return rate <= 3 ? std::pow(2.0, rate) : 0.0; };
  CHECK(reason_after(AdspWorld(options, kThree, 1).run(900, three_best), 400) ==
        "a new epoch: search from R=2");
}

}  // namespace rubato::sync
