#include "tests/report/sample.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/rng.hpp"

namespace rubato::report {
namespace {

constexpr double kTargetLoss = 0.45;
constexpr double kInterval = 5;

std::vector<WorkerRecord> sample_workers(std::size_t count, double seconds, double wait_share) {
  std::vector<WorkerRecord> workers;
  for (std::size_t i = 0; i < count; ++i) {
    WorkerRecord worker;
    worker.id = fmt::format("pi-{}", i);
    worker.step_seconds = 0.1 * (1 + 2.0 * static_cast<double>(i) / static_cast<double>(count));
    const double wait = wait_share * seconds * static_cast<double>(count - i);
    worker.wait = Duration::from_seconds(wait / static_cast<double>(count));
    worker.communicate = Duration::from_seconds(0.05 * seconds);
    worker.compute =
        Duration::from_seconds(seconds - worker.wait.seconds() - worker.communicate.seconds());
    worker.steps = static_cast<std::uint64_t>(worker.compute.seconds() / worker.step_seconds);
    worker.commits =
        wait_share > 0 ? worker.steps : static_cast<std::uint64_t>(seconds / 15) + i % 2;
    workers.push_back(worker);
  }
  return workers;
}

RunRecord sample_run(const std::string& sync, std::size_t speed, std::uint64_t seed,
                     std::size_t workers) {
  Rng rng(seed * 100 + speed);
  RunRecord run;
  run.sync = sync;
  run.seed = seed;
  const double noise = 1 + 0.1 * rng.normal();
  const double pace = 0.004 * std::pow(1.4, static_cast<double>(speed)) * noise;
  const double wait_share = sync == "adsp" ? 0 : 0.6 / static_cast<double>(speed + 1);
  // The target is reached by the mean of the last five, so the last of them is below it.
  const auto loss_at = [&](double t) { return 1 / (pace * (t + 3 * kInterval) + 0.45) + 0.12; };
  const double arrival = (1 / (kTargetLoss - 0.12) - 0.45) / pace;
  run.time_to_target_seconds = run.seconds = std::ceil(arrival / kInterval) * kInterval;
  run.stop_reason = "target reached";
  run.workers = sample_workers(workers, run.seconds, wait_share);
  for (const WorkerRecord& worker : run.workers) {
    run.steps += worker.steps;
    run.commits += worker.commits;
    run.compute_share += worker.compute.seconds() / run.seconds / static_cast<double>(workers);
    run.wait_share += worker.wait.seconds() / run.seconds / static_cast<double>(workers);
    run.communicate_share +=
        worker.communicate.seconds() / run.seconds / static_cast<double>(workers);
  }
  run.bytes_up = run.bytes_down = run.commits * 203'560;
  run.heterogeneity = 1.67;
  for (int i = 0; i * kInterval <= run.seconds; ++i) {
    const double t = i * kInterval;
    const double part = t / run.seconds;
    const double loss = loss_at(t) * (1 + 0.01 * rng.normal());
    run.evaluations.push_back({t, static_cast<std::uint64_t>(part * static_cast<double>(run.steps)),
                               static_cast<std::uint64_t>(part * static_cast<double>(run.commits)),
                               loss, 0.95 - 0.35 * loss});
    CommitCountRecord counts{t, {}};
    for (const WorkerRecord& worker : run.workers) {
      counts.commits.push_back(
          static_cast<std::uint64_t>(part * static_cast<double>(worker.commits)));
    }
    run.commit_counts.push_back(std::move(counts));
  }
  run.final_loss = run.evaluations.back().loss;
  run.final_accuracy = run.evaluations.back().accuracy;
  if (sync == "adsp") {
    run.decisions = {
        {0, "commit rate", 1, "search begins at rate 1"},
        {60, "commit rate", 2, "trying 2: the loss fell with slope 3.1e-3 at rate 1"},
        {120, "commit rate", 3, "trying 3: reward 1.5e-3 beats 9.1e-4 at rate 2"},
        {180, "commit rate", 4, "trying 4: reward 1.9e-3 beats 1.5e-3 at rate 3"},
        {240, "commit rate", 3, "keeping 3: reward 1.7e-3 at rate 4 is not better than 1.9e-3"}};
    std::erase_if(run.decisions,
                  [&](const DecisionRecord& decision) { return decision.seconds > run.seconds; });
  }
  return run;
}

}  // namespace

Comparison sample_comparison(const SampleOptions& options) {
  Comparison comparison;
  comparison.cluster = "edge-3";
  comparison.config_text = "name = \"edge-3\"\nseed = 1\n";
  comparison.command = "rubato compare edge-3.toml --seeds 3";
  comparison.host = {"Test CPU", 2, "Test OS", "0.0.0", "v0.0.0-1-gabc"};
  comparison.options = {{"adsp", "start_rate", "4"}};
  comparison.target_loss = kTargetLoss;
  for (std::size_t i = 0; i < options.models.size(); ++i) {
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
      comparison.runs.push_back(sample_run(options.models[i], i, seed, options.workers));
    }
  }
  return comparison;
}

}  // namespace rubato::report
