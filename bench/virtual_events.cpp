// bench/virtual_events.cpp - how many events a second the virtual cluster runs through, with the
// gradients of a tiny model: steps ended and messages delivered, counted as lines of the run log in
// one run and timed in a second one without a log, which is the same run.
// Usage: bench_virtual_events [--json FILE] [--quick | --smoke]
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "bench/rows.hpp"
#include "emulation/virtual_cluster.hpp"

namespace {

using namespace rubato;

// Unequal workers in two groups; every tenth is four times slower.
std::string cluster_text(int workers, double seconds) {
  const int slow = std::max(1, workers / 10);
  return fmt::format(R"(
[[workers]]
name = "fast"
count = {}
step_seconds = 0.5
jitter = 0.1
latency_seconds = 0.02
[[workers]]
name = "slow"
count = {}
step_seconds = 2.0
jitter = 0.1
latency_seconds = 0.05
[model]
kind = "svm"
[dataset]
kind = "blobs"
samples = {}
[training]
batch = 1
[evaluation]
interval_seconds = 60
samples = 10
[stop]
max_seconds = {}
)",
                     workers - slow, slow, 4 * workers, seconds);
}

Result<double> events_per_second(const std::string& sync, int workers, double seconds,
                                 int repeats) {
  RUBATO_ASSIGN(const auto config,
                emulation::parse_cluster(cluster_text(workers, seconds), "events", ""));
  RUBATO_ASSIGN(const auto data, worker::load_dataset(config.dataset, config.seed));
  std::uint64_t events = 0;
  emulation::VirtualOptions options;
  options.sync = sync;
  options.log = [&](const std::string&) { ++events; };
  RUBATO_TRY(emulation::run_virtual(config, data, options));
  options.log = {};
  std::vector<double> spent;
  for (int i = 0; i < repeats; ++i) {
    const Instant began = steady_now();
    RUBATO_TRY(emulation::run_virtual(config, data, options));
    spent.push_back((steady_now() - began).seconds());
  }
  return static_cast<double>(events) / bench::median(spent);
}

Result<void> run(const bench::RunOptions& options) {
  std::vector<bench::Row> rows;
  for (const int workers : {18, 1000}) {
    if (options.smoke && workers > 18) break;
    const double seconds = (options.quick || options.smoke ? 20'000 : 100'000) / workers;
    for (const char* sync : {"asp", "bsp", "adsp"}) {
      RUBATO_ASSIGN(const double rate,
                    events_per_second(sync, workers, seconds, options.smoke ? 1 : 3));
      rows.push_back({.name = fmt::format("virtual cluster, {} workers, {}", workers, sync),
                      .value = rate,
                      .unit = "events/s",
                      .peer = {},
                      .bar = {}});
    }
  }
  return bench::report(options, rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run(bench::parse_options(argc, argv)); !done) {
    fmt::print(stderr, "bench_virtual_events: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
