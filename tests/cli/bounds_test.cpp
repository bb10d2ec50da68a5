#include "cli/whatif/bounds.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/rng.hpp"

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

}  // namespace
}  // namespace rubato::cli::whatif::bounds_tests
