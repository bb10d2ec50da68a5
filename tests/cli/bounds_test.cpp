#include "cli/whatif/bounds.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "cluster/cluster_changes.hpp"
#include "emulation/virtual_cluster.hpp"

namespace rubato::cli::whatif::bounds_tests {
namespace {

// The least t with the sum of floor((t - c)/h) >= S, tried at every end of a step.
double gather_by_force(const std::vector<WorkerSpeed>& workers, std::uint64_t batches) {
  double least = INFINITY;
  for (const WorkerSpeed& one : workers) {
    for (std::uint64_t k = 1; k <= batches; ++k) {
      const double t = one.commit_seconds + static_cast<double>(k) * one.step_seconds;
      double made = 0;
      for (const WorkerSpeed& each : workers)
        made += std::max(0.0, std::floor((t - each.commit_seconds) / each.step_seconds + 1e-9));
      if (made >= static_cast<double>(batches)) least = std::min(least, t);
    }
  }
  return least;
}

TEST_CASE("bounds: the gather time is that of all ends tried one by one") {
  Rng rng(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<WorkerSpeed> workers;
    const auto count = 1 + static_cast<std::size_t>(6 * rng.uniform());
    for (std::size_t i = 0; i < count; ++i)
      workers.push_back({"w", 0.1 + rng.uniform(), 2 * rng.uniform()});
    Gather gather(workers);
    for (std::uint64_t batches = 1; batches <= 25; ++batches) {
      CAPTURE(trial);
      CAPTURE(batches);
      CHECK(gather.next() == doctest::Approx(gather_by_force(workers, batches)));
    }
  }
}

TEST_CASE("bounds: updates to the target are fitted back") {
  const UpdatesNeeded truth{95, 2.1};
  const UpdatesNeeded fit = fit_updates({{1, truth.at(1)}, {4, truth.at(4)}, {16, truth.at(16)}});
  CHECK(fit.least == doctest::Approx(95));
  CHECK(fit.noise == doctest::Approx(2.1));
  // Measured with 2 to 36 workers: K = 285, 153, 104.
  const UpdatesNeeded measured = fit_updates({{1, 285}, {4, 153}, {16, 104}});
  CHECK(measured.least == doctest::Approx(95).epsilon(0.1));
  CHECK(measured.noise == doctest::Approx(2.1).epsilon(0.2));
  // More batches that save nothing: no noise.
  CHECK(fit_updates({{1, 100}, {4, 100}}).noise == doctest::Approx(0));
}

TEST_CASE("bounds: the best S is that of all S tried") {
  const UpdatesNeeded updates{100, 10};
  const std::vector<WorkerSpeed> workers{{"a", 0.5, 0.2}, {"b", 0.5, 0.2}, {"slow", 30, 0.2}};
  double least = INFINITY;
  std::uint64_t at = 0;
  for (std::uint64_t batches = 1; batches < 400; ++batches) {
    const double seconds =
        updates.at(static_cast<double>(batches)) * gather_by_force(workers, batches);
    if (seconds < least - 1e-9) {
      least = seconds;
      at = batches;
    }
  }
  const BestGather best = best_gather(updates, workers);
  CHECK(best.batches == at);
  CHECK(best.seconds == doctest::Approx(least));
  CHECK(best.useless == std::vector<std::string>{"slow"});
}

TEST_CASE("bounds: the linear bound adds all speeds, and a commit takes both ways of both links") {
  const auto config = cluster::parse_cluster(R"(
[[workers]]
name = "pi"
count = 2
step_seconds = 0.5
latency_seconds = 0.1
up_mbps = 8
down_mbps = 16
[servers]
count = 2
latency_seconds = 0.05
up_mbps = 80
[stop]
max_seconds = 1
)",
                                             "c.toml", "");
  REQUIRE(config.has_value());
  const auto speeds = worker_speeds(*config, 250'000);  // 1 MB
  REQUIRE(speeds.size() == 2);
  CHECK(speeds[0].commit_seconds == doctest::Approx(0.2 + 1 + 0.5 + 0.1 + 0.05));
  CHECK(linear_bound(400, speeds) == doctest::Approx(100));
}

// A cluster of which only the timing counts. Rennala takes S gradients an update.
cluster::ClusterConfig timed(const std::string& workers, std::uint64_t batches) {
  const auto config = cluster::parse_cluster(
      workers + "[model]\nkind = \"timing\"\nparameters = 1000\n[sync.rennala]\ngradients = " +
          std::to_string(batches) + "\n[stop]\nmax_seconds = 2000\n",
      "c.toml", "");
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  return *config;
}

// Seconds from one update of Rennala to the next.
double update_seconds(const cluster::ClusterConfig& config, std::uint64_t batches) {
  emulation::VirtualOptions options;
  options.sync = "rennala";
  const auto record = emulation::run_virtual(config, {}, options);
  REQUIRE(record.has_value());
  return record->seconds * static_cast<double>(batches) /
         static_cast<double>(record->commits - record->dropped_commits);
}

std::string group(const std::string& name, int count, double step, double latency) {
  return fmt::format(
      "[[workers]]\nname = \"{}\"\ncount = {}\nstep_seconds = {}\njitter = 0.05\n"
      "latency_seconds = {}\n",
      name, count, step, latency);
}

const std::string kEqual = group("w", 4, 0.5, 0.02);
const std::string kUnequal =
    group("fast", 2, 0.5, 0.02) + group("middle", 2, 1.2, 0.02) + group("slow", 3, 20, 0.02);
const std::string kFar = group("near", 3, 0.4, 0.01) + group("far", 3, 0.4, 8);

// T_opt = min over S of K(S) t(S), and Rennala needs K(S) updates. So it beats T_opt only where an
// update takes less than t(S). No S does.
TEST_CASE("bounds: Rennala never gathers an update faster than the bound says, at any S") {
  for (const std::string& workers : {kEqual, kUnequal, kFar}) {
    double fastest = INFINITY;  // against the bound
    Gather gather(worker_speeds(timed(workers, 1), 1000));
    for (std::uint64_t batches = 1; batches <= 16; ++batches) {
      CAPTURE(batches);
      const double ratio = update_seconds(timed(workers, batches), batches) / gather.next();
      CHECK(ratio >= 0.95);
      fastest = std::min(fastest, ratio);
    }
    CHECK(fastest < 1.5);  // the bound is near
  }
}

// Useless are those that make no whole step for an update of the best size.
TEST_CASE("bounds: without the workers that are not worth their energy updates take as long") {
  const std::string many = kEqual + kFar;
  for (const std::string& workers : {kUnequal, kFar, many}) {
    for (const double noise : {4.0, 12.0}) {
      CAPTURE(noise);
      auto config = timed(workers, 1);
      const BestGather best = best_gather({100, noise}, worker_speeds(config, 1000));
      REQUIRE_FALSE(best.useless.empty());
      config = timed(workers, best.batches);
      const double with = update_seconds(config, best.batches);
      for (const std::string& worker : best.useless)
        REQUIRE(cluster::remove_workers(config, worker).has_value());
      CHECK(std::abs(update_seconds(config, best.batches) / with - 1) <= 0.05);
    }
  }
}

}  // namespace
}  // namespace rubato::cli::whatif::bounds_tests
