// bench/virtual_events.cpp - how many events a second the virtual cluster runs through, and in how
// much memory: steps ended and messages delivered, counted as lines of the run log in one run and
// timed in a second one without a log, which is the same run. Timing only, and with the gradients
// of a tiny model.
// Usage: bench_virtual_events [--json FILE] [--quick | --smoke]
//        bench_virtual_events --one SYNC WORKERS SERVERS [MBPS]   timing only: events/s, GiB
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "bench/rows.hpp"
#include "emulation/virtual_cluster.hpp"

namespace {

using namespace rubato;

// Unequal workers in two groups; every tenth is four times slower. `mbps`: of each server's link, 0
// without a limit.
std::string cluster_text(int workers, int servers, double seconds, const char* model,
                         double mbps = 0) {
  const int slow = std::max(1, workers / 10);
  return fmt::format(
      R"(
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
[servers]
count = {}
up_mbps = {}
down_mbps = {}
[model]
{}
[dataset]
kind = "blobs"
samples = {}
[training]
batch = 1
[sync.adsp]
{}
[evaluation]
interval_seconds = 60
samples = 10
[stop]
max_seconds = {}
)",
      workers - slow, slow, servers, mbps, mbps, model, 4 * workers,
      std::string_view(model).find("timing") != std::string_view::npos ? "fixed_rate = 20" : "",
      seconds);
}

constexpr const char* kTiming = "kind = \"timing\"\nparameters = 1000";
constexpr const char* kGradients = "kind = \"svm\"";

struct Speed {
  double events_per_second = 0;
  double wall_seconds = 0;  // of the median run
};

Result<Speed> measure(const std::string& sync, const std::string& text, int repeats) {
  RUBATO_ASSIGN(const auto config, cluster::parse_cluster(text, "events", ""));
  train::DataSplit data;
  if (!config.timing_only()) {
    RUBATO_ASSIGN(data, train::load_dataset(config.dataset, config.seed));
  }
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
  const double seconds = bench::median(spent);
  return Speed{static_cast<double>(events) / seconds, seconds};
}

// The most memory that this process ever had.
double peak_gib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / (1024.0 * 1024.0);
  return 0;
}

// A run of so many events, about; steps and commits are a fraction of them.
double seconds_for(int workers, const bench::RunOptions& options) {
  const double worker_seconds = options.smoke ? 20'000 : options.quick ? 200'000 : 600'000;
  return std::max(20.0, worker_seconds / workers);
}

Result<void> run_one(const bench::RunOptions& options) {
  const std::size_t count = options.others.size();
  if ((count != 4 && count != 5) || options.others[0] != "--one")
    return fail(ErrorCode::BadInput, "usage: --one SYNC WORKERS SERVERS [MBPS]");
  const int workers = std::stoi(options.others[2]);
  RUBATO_ASSIGN(
      const Speed speed,
      measure(options.others[1],
              cluster_text(workers, std::stoi(options.others[3]), seconds_for(workers, options),
                           kTiming, count == 5 ? std::stod(options.others[4]) : 0),
              options.quick || options.smoke ? 1 : 3));
  fmt::print("{} {}\n", speed.events_per_second, peak_gib());
  return {};
}

// In a process of its own, since a peak of memory never falls.
Result<std::array<double, 2>> measure_apart(const bench::RunOptions& options,
                                            const std::string& sync, int workers, int servers,
                                            double mbps = 0) {
  const std::string command =
      fmt::format("/proc/{}/exe --one {} {} {} {}{}", getpid(), sync, workers, servers, mbps,
                  options.smoke   ? " --smoke"
                  : options.quick ? " --quick"
                                  : "");
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) return fail(ErrorCode::Io, "cannot start " + command);
  std::array<double, 2> said{};
  const int read = std::fscanf(output, "%lf %lf", &said[0], &said[1]);
  if (pclose(output) != 0 || read != 2) return fail(ErrorCode::Io, "failed: " + command);
  return said;
}

Result<void> run_timing(const bench::RunOptions& options, std::vector<bench::Row>& rows) {
  for (const int workers : {18, 1000, 10'000}) {
    if (options.smoke && workers > 1000) break;
    for (const int servers : {1, 4}) {
      for (const char* sync : {"asp", "bsp", "adsp"}) {
        RUBATO_ASSIGN(const auto said, measure_apart(options, sync, workers, servers));
        const std::string name = fmt::format("timing only, {} workers, {} server{}, {}", workers,
                                             servers, servers == 1 ? "" : "s", sync);
        rows.push_back(
            {.name = name, .value = said[0], .unit = "events/s", .peer = {}, .bar = ">= 500000"});
        if (workers >= 10'000)
          rows.push_back({.name = name + ": memory",
                          .value = said[1],
                          .unit = "GiB",
                          .peer = {},
                          .bar = "<= 4"});
      }
    }
  }
  return {};
}

// A transfer that begins or ends changes the rate of all others on a limited link.
Result<void> run_limited(const bench::RunOptions& options, std::vector<bench::Row>& rows) {
  if (options.smoke) return {};
  for (const char* sync : {"asp", "bsp", "adsp"}) {
    RUBATO_ASSIGN(const auto said, measure_apart(options, sync, 1000, 1, 100));
    rows.push_back(
        {.name = fmt::format("timing only, 1000 workers, 1 server of 100 Mb/s, {}", sync),
         .value = said[0],
         .unit = "events/s",
         .peer = {},
         .bar = {}});
  }
  return {};
}

Result<void> run_gradients(const bench::RunOptions& options, std::vector<bench::Row>& rows) {
  for (const int workers : {18, 1000}) {
    if (options.smoke && workers > 18) break;
    const double seconds = seconds_for(workers, options) / 4;
    for (const char* sync : {"asp", "bsp", "adsp"}) {
      RUBATO_ASSIGN(const Speed speed, measure(sync, cluster_text(workers, 1, seconds, kGradients),
                                               options.quick || options.smoke ? 1 : 3));
      const std::string name = fmt::format("with gradients, {} workers, {}", workers, sync);
      rows.push_back({.name = name,
                      .value = speed.events_per_second,
                      .unit = "events/s",
                      .peer = {},
                      .bar = {}});
      rows.push_back({.name = name + ": a virtual minute",
                      .value = speed.wall_seconds * 60 / seconds,
                      .unit = "s",
                      .peer = {},
                      .bar = {}});
    }
  }
  return {};
}

Result<void> run(const bench::RunOptions& options) {
  if (!options.others.empty()) return run_one(options);
  std::vector<bench::Row> rows;
  RUBATO_TRY(run_timing(options, rows));
  RUBATO_TRY(run_limited(options, rows));
  RUBATO_TRY(run_gradients(options, rows));
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
