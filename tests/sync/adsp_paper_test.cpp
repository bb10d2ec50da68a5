// One test for each claim or formula of the ADSP paper that we build: Hu, Wang, Wu, "Distributed
// Machine Learning through Heterogeneous Edge Systems", AAAI 2020 (arXiv 1911.06949).
#include <doctest/doctest.h>

#include <cmath>

#include "sync/loss_curve.hpp"
#include "tests/sync/adsp_world.hpp"

namespace rubato::sync {
namespace {

AdspOptions published() {
  AdspOptions options;
  options.reward = RewardKind::Paper;
  options.start = SearchStart::Paper;
  return options;
}

}  // namespace

TEST_CASE("Alg. 1, worker: a commit every Gamma/dC_i - O_i after the last reply") {
  AdspRule rule(Duration::from_seconds(60));
  const std::string trace = R"(
0 start
0 rate 4
15 step -> commit
15 sent
17 reply 2
30.9 step -> train on
31 step -> commit
)";
  CHECK(replay_rule(rule, trace) == trace);  // O_i = 1 after one commit of 2 s: 17 + 15 - 1
}

TEST_CASE("Sec. 4.1: all workers have the same number of commits at a checkpoint, slow or fast") {
  AdspOptions options;
  options.fixed_rate = 3;
  AdspWorld world(options,
                  {{.step_seconds = 0.48, .jitter = 0.1, .overhead_seconds = 0.2},
                   {.step_seconds = 0.39, .jitter = 0.1, .overhead_seconds = 0.2},
                   {.step_seconds = 1.46, .jitter = 0.1, .overhead_seconds = 0.2}},
                  1);
  const WorldResult result = world.run(1200, [](double) { return 1.0; });
  for (const auto& counts : result.counts) {
    CAPTURE(counts[0]);
    CHECK(counts[1] <= counts[0] + 1);
    CHECK(counts[0] <= counts[1] + 1);
    CHECK(counts[2] <= counts[0] + 1);
    CHECK(counts[0] <= counts[2] + 1);
  }
  CHECK(result.counts.back()[2] >= 59);  // 20 check periods of 3
}

TEST_CASE("Alg. 1, scheduler: C_target grows by R at each checkpoint, dC_i = C_target - c_i") {
  AdspOptions options;
  options.fixed_rate = 3;
  AdspTuner tuner(options, 0);
  const std::string trace = R"(
0 join 0
0 join 1
0 start -> R=3 "fixed rate 3"; 0:3 1:3
59 progress 0 3 0.5 0.2
59 progress 1 2 1.5 0.2
60 wakeup -> 1:4
119 progress 0 5 0.5 0.2
119 progress 1 6 1.5 0.2
120 wakeup -> 0:4 1:3
)";
  CHECK(replay_tuner(tuner, trace) == trace);
}

TEST_CASE("Alg. 1, DecideCommitRate: from R = 1 up by one while the reward of a minute rises") {
  const std::vector<WorldWorker> workers(3, {.step_seconds = 0.5, .overhead_seconds = 0.2});
  AdspWorld world(published(), workers, 1);
  const WorldResult result =
      world.run(600, [](double rate) { return rate <= 3 ? std::pow(2.0, rate) : 0.0; });
  std::vector<std::pair<std::int64_t, double>> rates;  // milliseconds, R
  for (const Decision& decision : result.decisions) {
    rates.emplace_back(decision.at.ns / 1'000'000, decision.value);
  }
  const std::vector<std::pair<std::int64_t, double>> expected = {
      {0, 1}, {60'000, 2}, {120'000, 3}, {180'000, 4}, {240'000, 3}};
  CHECK(rates == expected);
}

TEST_CASE("Alg. 1: a new epoch begins the search again from R = 1") {
  AdspOptions options = published();
  options.epoch = Duration::from_seconds(300);
  const std::vector<WorldWorker> workers(2, {.step_seconds = 0.5});
  AdspWorld world(options, workers, 1);
  const WorldResult result = world.run(400, [](double) { return 1.0; });
  const auto restart = std::find_if(
      result.decisions.begin() + 1, result.decisions.end(),
      [](const Decision& each) { return each.reason == "a new epoch: search from R=1"; });
  REQUIRE(restart != result.decisions.end());
  CHECK(restart->at.seconds() >= 300);
  CHECK(restart->at.seconds() < 360);
}

TEST_CASE("Sec. 4.2: the curve and the reward from three samples, in closed form") {
  const std::array<LossSample, 3> samples = {{{0, 2.7}, {30, 2.305263158}, {60, 2.018181818}}};
  const LossCurve curve = fit_three(samples);
  CHECK(curve.a == doctest::Approx(0.0025).epsilon(1e-6));
  CHECK(curve.b == doctest::Approx(0.4).epsilon(1e-6));
  CHECK(curve.c == doctest::Approx(0.2).epsilon(1e-6));
  CHECK(paper_reward(samples, 0.5) == doctest::Approx(8.5227273e-4).epsilon(1e-6));
  CHECK(1 / paper_reward(samples, 0.5) == doctest::Approx(1173.33).epsilon(1e-5));
}

TEST_CASE("Sec. 4.2: the rewards of the authors' own run on EC2") {
  const std::array<LossSample, 3> early = {
      {{334.461, 1.7793665}, {402.844, 1.7044488}, {532.260, 1.4798783}}};
  const std::array<LossSample, 3> late = {
      {{1980.849, 0.9880295}, {2044.448, 0.9627701}, {2171.954, 0.9028465}}};
  CHECK(paper_reward(early, 1.0) == doctest::Approx(0.001520).epsilon(1e-3));
  CHECK(paper_reward(late, 1.0) == doctest::Approx(0.000513).epsilon(1e-3));
}

TEST_CASE("Sec. 4.2: the published reward prefers a window whose loss rises, ours does not") {
  const std::array<LossSample, 3> rising = {
      {{1501.817, 1.1659632}, {1565.697, 1.2104717}, {1693.813, 1.3477468}}};
  const std::array<LossSample, 3> falling = {
      {{1980.849, 0.9880295}, {2044.448, 0.9627701}, {2171.954, 0.9028465}}};
  CHECK(paper_reward(rising, 1.0) > paper_reward(falling, 1.0));
  CHECK_FALSE(falls_faster(falling, rising));
  CHECK(falls_faster(rising, falling));
}

}  // namespace rubato::sync
