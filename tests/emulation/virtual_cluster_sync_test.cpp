// The promises of the sync models, seen from outside: who may be ahead of whom, how often who
// commits, when a run ends.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sync/adsp.hpp"
#include "sync/ssp.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

std::uint64_t spread(const std::vector<std::uint64_t>& counts) {
  const auto [least, most] = std::ranges::minmax(counts);
  return most - least;
}

}  // namespace

TEST_CASE("under SSP no worker goes on more than s commits ahead of the slowest") {
  const auto data = small_blobs();
  for (const int staleness : {0, 1, 4}) {
    CAPTURE(staleness);
    cluster::ClusterConfig config = small_cluster({0.1, 0.15, 0.8});
    set_latency(config, 0.02);
    config.sync.of<sync::SspOptions>().staleness = staleness;
    const Run ssp = run(config, data, "ssp");
    std::map<int, int> commits = {{0, 0}, {1, 0}, {2, 0}};  // at the server
    int ahead_most = 0;
    for (const auto& line : parameter_lines(ssp)) {
      if (line.commit) {
        ++commits[line.worker];
        continue;
      }
      const auto slowest =
          std::ranges::min_element(commits, {}, [](const auto& entry) { return entry.second; });
      ahead_most = std::max(ahead_most, commits[line.worker] - slowest->second);
    }
    CHECK(ahead_most == staleness);  // never more, and the fast ones go as far as they may
    CHECK(ssp.record.workers[0].wait.seconds() > 1);
    CHECK(ssp.record.workers[2].wait.seconds() == 0);
  }
}

TEST_CASE("under BSP no worker begins a round before all have ended the last") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.3});
  for (auto& group : config.workers) group.device.jitter = 0.5;
  const Run bsp = run(config, data, "bsp");
  std::map<int, std::uint64_t> steps = {{0, 0}, {1, 0}};
  for (const auto& line : step_lines(bsp)) {
    steps[line.worker] = line.step;
    const auto apart = std::max(steps[0], steps[1]) - std::min(steps[0], steps[1]);
    REQUIRE(apart <= 1);
  }
  CHECK(steps[0] > 100);
}

// Up to nine tenths of R_cap; beyond it the slowest cannot keep up.
TEST_CASE("ADSP keeps commit counts equal at speeds that differ five times") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.23, 0.5});
  set_latency(config, 0.05);
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(10);
  config.stop.max_seconds = 400;
  for (const double jitter : {0.0, 0.3}) {
    for (const int rate : {1, 3, 5, 8, 12}) {
      CAPTURE(jitter);
      CAPTURE(rate);
      for (auto& group : config.workers) group.device.jitter = jitter;
      config.sync.of<sync::AdspOptions>().fixed_rate = rate;
      const Run adsp = run(config, data, "adsp");
      const auto lines = parameter_lines(adsp);
      std::vector<std::uint64_t> commits(4, 0);
      std::uint64_t apart_at_checkpoints = 0, apart = 0;
      double checkpoint = lines.front().seconds + 10;
      for (const auto& line : lines) {
        while (line.seconds >= checkpoint) {
          apart_at_checkpoints = std::max(apart_at_checkpoints, spread(commits));
          checkpoint += 10;
        }
        if (line.commit) ++commits[static_cast<std::size_t>(line.worker)];
        apart = std::max(apart, spread(commits));
      }
      CHECK(apart_at_checkpoints <= 1);
      CHECK(apart <= 2);
      for (const auto count : commits)
        CHECK(std::abs(static_cast<double>(count) - 400.0 / 10 * rate) <= 2);
      CHECK(adsp.record.workers[0].steps > 4 * adsp.record.workers[3].steps);
    }
  }
}

TEST_CASE("with overlap ADSP trains on while a commit is in flight") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.3});
  set_latency(config, 1);
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(10);
  config.sync.of<sync::AdspOptions>().fixed_rate = 3;
  const RunRecord blocked = run(config, data, "adsp").record;
  CHECK(blocked.communicate_share == doctest::Approx(0.6).epsilon(0.1));
  config.sync.of<sync::AdspOptions>().overlap = true;
  const RunRecord overlapped = run(config, data, "adsp").record;
  for (const auto& worker : overlapped.workers) {
    CAPTURE(worker.id);
    CHECK(worker.communicate.seconds() == doctest::Approx(2));  // only the first pull
    CHECK(worker.wait.seconds() == 0);
    CHECK(worker.commits == doctest::Approx(60.0 / 10 * 3).epsilon(0.1));
  }
  CHECK(overlapped.steps > 2 * blocked.steps);
}

TEST_CASE("ADSP searches online and says why") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.1, 0.5});
  set_latency(config, 0.1);
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(10);
  config.sync.of<sync::AdspOptions>().epoch = Duration::from_seconds(200);
  config.stop.max_seconds = 450;
  const RunRecord record = run(config, data, "adsp").record;
  REQUIRE(record.decisions.size() >= 4);
  for (const auto& decision : record.decisions) {
    CHECK(decision.value >= 1);
    CHECK(decision.value <= 10 / 0.7);  // R_cap: a period holds no more of the slowest's commits
    CHECK_FALSE(decision.reason.empty());
  }
  CHECK(std::ranges::is_sorted(record.decisions, {}, &DecisionRecord::seconds));
  CHECK(record.decisions.front().seconds < 1);
  CHECK(record.decisions.back().seconds >= 200);  // the second epoch searched again
}

TEST_CASE("ADSP reaches a target before BSP on unequal workers") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.2, 0.2, 1.0});
  set_latency(config, 0.1);
  config.training.learning_rate = 0.02;
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(20);
  config.stop.target_loss = 0.5;
  config.stop.max_seconds = 5000;
  const auto adsp = run(config, data, "adsp").record.time_to_target_seconds;
  const auto bsp = run(config, data, "bsp").record.time_to_target_seconds;
  REQUIRE(adsp.has_value());
  REQUIRE(bsp.has_value());
  CHECK(*adsp < 0.5 * *bsp);
}

TEST_CASE("a run ends when the mean of five evaluations reaches the target") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.2});
  config.stop.target_loss = 0.6;
  config.stop.max_seconds = 1000;
  const RunRecord record = run(config, data, "asp").record;
  REQUIRE(record.time_to_target_seconds.has_value());
  CHECK(record.stop_reason.starts_with("target reached"));
  CHECK(record.seconds < 1000);
  const auto mean_of_five = [&](std::size_t end) {
    double sum = 0;
    for (std::size_t i = end - 5; i < end; ++i) sum += record.evaluations[i].loss;
    return sum / 5;
  };
  const std::size_t count = record.evaluations.size();
  REQUIRE(count >= 6);
  CHECK(*record.time_to_target_seconds == record.evaluations.back().seconds);
  CHECK(mean_of_five(count) <= 0.6);
  CHECK(mean_of_five(count - 1) > 0.6);

  config.stop.target_loss.reset();
  config.stop.target_accuracy = 0.8;
  config.stop.max_seconds = 1000;
  const RunRecord accurate = run(config, data, "asp").record;
  REQUIRE(accurate.time_to_target_seconds.has_value());
  CHECK(accurate.final_accuracy >= 0.75);
}

TEST_CASE("a target that is not reached has no time") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.2});
  config.stop.target_loss = 1e-9;
  config.stop.max_seconds = 20;
  const RunRecord record = run(config, data, "asp").record;
  CHECK_FALSE(record.time_to_target_seconds.has_value());
  CHECK(record.stop_reason == "max_seconds 20 reached");
  CHECK(record.seconds == doctest::Approx(20));
}

TEST_CASE("a limit of steps ends the run once all workers together have made them") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = small_cluster({0.1, 0.2});
  config.stop.max_seconds.reset();
  config.stop.max_steps = 100;
  const RunRecord record = run(config, data, "asp").record;
  CHECK(record.stop_reason == "max_steps 100 reached");
  CHECK(record.steps >= 100);
  CHECK(record.steps <= 103);  // a step of each may be unreported
}

TEST_CASE("the caller hears of every evaluation and may end the run") {
  const auto data = small_blobs();
  const cluster::ClusterConfig config = small_cluster({0.1, 0.2});
  std::vector<VirtualProgress> heard;
  std::stop_source caller;
  VirtualOptions options;
  options.sync = "asp";
  options.progress = [&](const VirtualProgress& progress) {
    heard.push_back(progress);
    if (heard.size() == 7) caller.request_stop();
  };
  options.stop = caller.get_token();
  const auto record = run_virtual(config, data, options);
  REQUIRE(record.has_value());
  CHECK(heard.size() == 7);
  CHECK(record->evaluations.size() == 7);
  CHECK(record->stop_reason == "stopped by the caller");
  for (std::size_t i = 1; i < heard.size(); ++i) {
    CHECK(heard[i].seconds > heard[i - 1].seconds);
    CHECK(heard[i].steps > heard[i - 1].steps);
  }
  CHECK(heard.back().smoothed_loss < heard.front().smoothed_loss);
}
