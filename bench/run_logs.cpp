// bench/run_logs.cpp - the hash of every run log, which shows that a change left the behaviour of
// the sync models as it was. Each model on edge-3, edge-18 and edge-18-slow-net, with three seeds,
// in virtual time on the reference device: its bits do not depend on the processor.
// Prints one line a run: cluster, model, seed, hash of the log, hash of the figures of the result.
// The figures are listed here, so a new field of results.json does not change the hash. Longer
// messages change logs where links are slow, such as those of a Hello with one more setting.
// bench/run_logs.sh compares them with those of another commit.
// Usage: bench_run_logs DIRECTORY_OF_CLUSTERS [MODEL...]
#include <fmt/format.h>

#include <cstdio>
#include <future>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/checksum.hpp"
#include "emulation/virtual_cluster.hpp"
#include "sync/factory.hpp"

namespace {

using namespace rubato;

constexpr std::uint64_t kSeeds = 3;

// They make a run cheap: the plain loops of the reference device are ten times slower than others.
const std::vector<Setting> kSettings = {
    {"training.device", "\"reference\""}, {"training.batch", "8"}, {"evaluation.samples", "500"}};

std::string figures_of(const RunRecord& run) {
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {}\n", run.time_to_target_seconds.value_or(-1),
                  run.stop_reason, run.seconds, run.steps, run.commits, run.bytes_up,
                  run.bytes_down, run.heterogeneity, run.refused_commits.value_or(0), run.setbacks);
  for (const WorkerRecord& worker : run.workers)
    text +=
        fmt::format("{} {} {} {} {} {}\n", worker.id, worker.steps, worker.commits,
                    worker.compute.seconds(), worker.wait.seconds(), worker.communicate.seconds());
  for (const EvaluationRecord& point : run.evaluations)
    text += fmt::format("{} {} {} {} {}\n", point.seconds, point.steps, point.commits, point.loss,
                        point.accuracy);
  for (const DecisionRecord& decision : run.decisions)
    text += fmt::format("{} {} {}\n", decision.seconds, decision.quantity, decision.value);
  return text;
}

Result<std::string> run_one(const cluster::ClusterConfig& config, const train::DataSplit& data,
                            const std::string& model, std::uint64_t seed) {
  RunningChecksum log;
  emulation::VirtualOptions options;
  options.sync = model;
  options.seed = seed;
  options.log = [&](const std::string& line) {
    log.add(std::as_bytes(std::span(line)));
    log.add(std::as_bytes(std::span("\n", 1)));
  };
  RUBATO_ASSIGN(const auto record, emulation::run_virtual(config, data, options));
  const std::string figures = figures_of(record);
  return fmt::format("{} {} {} {:016x} {:016x}\n", config.name, model, seed, log.value(),
                     checksum(std::as_bytes(std::span(figures))));
}

// As many runs at once as there are cores; the lines come in the order of the models.
Result<void> run_models(const cluster::ClusterConfig& config,
                        const std::vector<std::string>& models, std::uint64_t seed) {
  RUBATO_ASSIGN(const auto data, train::load_dataset(config.dataset, seed));
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t first = 0; first < models.size(); first += cores) {
    std::vector<std::future<Result<std::string>>> runs;
    for (std::size_t i = first; i < std::min(first + cores, models.size()); ++i)
      runs.push_back(std::async(std::launch::async,
                                [&, i] { return run_one(config, data, models[i], seed); }));
    for (auto& run : runs) {
      RUBATO_ASSIGN(const std::string line, run.get());
      std::fputs(line.c_str(), stdout);
    }
    std::fflush(stdout);
  }
  return {};
}

Result<void> run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return fail(ErrorCode::BadInput, "usage: DIRECTORY [MODEL...]");
  std::vector<std::string> models(arguments.begin() + 1, arguments.end());
  if (models.empty())
    for (const auto& info : sync::models()) models.emplace_back(info.name);
  for (const char* name : {"edge-3", "edge-18", "edge-18-slow-net"}) {
    RUBATO_ASSIGN(const auto source, cluster::read_cluster(arguments[0] + "/" + name + ".toml"));
    RUBATO_ASSIGN(const auto config,
                  cluster::parse_cluster(source.text, source.file, source.catalog_text, kSettings));
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
      RUBATO_TRY(run_models(config, models, seed));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run({argv + 1, argv + argc}); !done) {
    fmt::print(stderr, "bench_run_logs: {}\n", done.error().message);
    return 2;
  }
  return 0;
}
