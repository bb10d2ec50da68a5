// bench/profile_overhead.cpp - what profiling costs: the same steps and commits with and without
// it, run after run in turns, over loopback TCP and shared memory; and one span alone. The runs are
// spread over several processes, for where one's memory comes to lie moves a ratio by a per cent.
// The cluster is the real one but for processes: a scheduler, a server and a worker, each the loop,
// core and transport of `rubato`, recording as `rubato up --profile` does, on threads.
// Usage: bench_profile_overhead [--smoke] [--json FILE]     --process: as one of the processes
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/rng.hpp"
#include "bench/rows.hpp"
#include "emulation/cluster_plan.hpp"
#include "proto/shm_transport.hpp"
#include "server/peer_loop.hpp"
#include "worker/worker_loop.hpp"

namespace {

using namespace rubato;
using bench::median;
using bench::Row;

constexpr const char* kAnyPort = "tcp://127.0.0.1:*";

template <class T>
T expect(Result<T> result) {
  RUBATO_CHECK(result, result.error().message.c_str());
  return std::move(*result);
}

struct Case {
  const char* name;
  const char* hidden;
  int batch;
  int steps;  // a run
  int pairs;  // of runs, in each process
  bool shared_memory;
};

constexpr int kProcesses = 10;

// A step of about 1 ms with a commit of 25 kB after each, and a commit of 16 MiB after each step,
// whose runs differ by 7 % among themselves. Long enough that the start, where a profile's rings
// are made (2 MB), does not count.
constexpr Case kCases[] = {
    {"1 ms step, commit after each", "[256]", 1536, 500, 6, false},
    {"16 MiB commit after each step", "[2040, 2040]", 4, 60, 4, false},
    {"1 ms step, commit after each, shared memory", "[256]", 1536, 500, 6, true},
    {"16 MiB commit after each step, shared memory", "[2040, 2040]", 4, 60, 4, true},
};

struct Prepared {
  emulation::ClusterConfig config;
  worker::DataSplit data;
  emulation::ClusterPlan plan;
  bool shared_memory = false;

  // A node's, which records into `lane`.
  proto::ShmOptions transport(TraceLane* lane) const {
    proto::ShmOptions options{.trace = lane};
    if (!shared_memory) options.host.clear();
    return options;
  }
};

Prepared prepare(const Case& c, int steps) {
  const std::string text = fmt::format(
      "name = \"overhead\"\n[[workers]]\nname = \"w\"\nstep_seconds = 1\n[model]\nkind = \"mlp\"\n"
      "hidden = {}\n[dataset]\nkind = \"blobs\"\nsamples = 4000\nfeatures = 20\nclasses = 4\n"
      "[training]\nbatch = {}\nlearning_rate = 0.001\n[stop]\nmax_steps = {}\n",
      c.hidden, c.batch, steps);
  Prepared p;
  p.shared_memory = c.shared_memory;
  p.config = expect(emulation::parse_cluster(text, "overhead", ""));
  p.data = expect(worker::load_dataset(p.config.dataset, 1));
  p.plan =
      expect(emulation::make_plan(p.config, "asp", 1, p.data.train.shape, p.data.train.classes));
  return p;
}

void serve(const Prepared& p, const std::string& scheduler, TraceProcess process) {
  proto::ShmTransport transport(p.transport(process.lane("shard 0")));
  std::optional<proto::LoopTrace> trace;
  if (process) trace.emplace(process, "shard 0", TraceClock::Scheduler);
  const std::string endpoint = expect(transport.listen(kAnyPort));
  const auto core = emulation::make_server(p.config, p.plan, os_random(), "s", endpoint,
                                           expect(transport.connect(scheduler)));
  core->on_start(steady_now());
  RUBATO_CHECK(server::run_core(transport, *core, {}, trace ? &*trace : nullptr), "it serves");
}

void work(const Prepared& p, const std::string& scheduler, TraceProcess process) {
  auto samples = expect(emulation::plan_samples(p.config, p.plan, p.data.train));
  auto trainer =
      expect(emulation::make_trainer(p.config, p.plan, 0, p.data.train, std::move(samples[0])));
  const auto core = emulation::make_worker(p.config, p.plan, os_random(), "w");
  proto::ShmTransport transport(p.transport(process.lane("io")));
  const worker::WorkerLoopOptions options{scheduler, {}, process};
  expect(worker::run_worker(transport, *core, trainer, options, {}));
}

// Processor time of this process so far.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Run {
  double us = 0;              // a step with its commit
  double cpu_us = 0;          // of all threads, start and end of the run included
  std::uint64_t dropped = 0;  // events
};

// One training run. `profile`: the directory of its traces, or empty.
Run run(const Prepared& p, const std::string& profile) {
  std::unique_ptr<Trace> traces[3];
  TraceProcess processes[3];
  constexpr const char* kNames[] = {"scheduler", "server", "worker"};
  for (std::size_t i = 0; !profile.empty() && i < 3; ++i) {
    const auto clock = i == 0 ? TraceClock::Own : TraceClock::Scheduler;
    traces[i] = expect(Trace::open(fmt::format("{}/{}.json", profile, kNames[i]), clock));
    processes[i] = traces[i]->process(kNames[i]);
  }
  const double cpu_before = cpu_seconds();
  const auto scheduler = emulation::make_scheduler(p.config, p.plan, os_random(), false);
  {
    proto::ShmTransport transport(p.transport(processes[0].lane("scheduler")));
    std::optional<proto::LoopTrace> loop;
    if (processes[0]) loop.emplace(processes[0], "scheduler", TraceClock::Own);
    const std::string endpoint = expect(transport.listen(kAnyPort));
    const std::jthread server([&] { serve(p, endpoint, processes[1]); });
    server::PeerLoop turns(transport, *scheduler, loop ? &*loop : nullptr);
    std::jthread worker;  // once its first Hello will be answered, not a second later
    while (!scheduler->drained()) {
      if (scheduler->serving() && !worker.joinable())
        worker = std::jthread([&] { work(p, endpoint, processes[2]); });
      RUBATO_CHECK(turns.turn(), "it schedules");
    }
    turns.flush();
  }
  const RunRecord record = scheduler->record();
  const auto steps = static_cast<double>(record.steps);
  Run result{record.seconds / steps * 1e6, (cpu_seconds() - cpu_before) / steps * 1e6};
  for (auto& trace : traces)
    if (trace) result.dropped += expect(trace->finish()).dropped;
  return result;
}

struct Pair {
  Run on, off;
};
using Pairs = std::array<std::vector<Pair>, std::size(kCases)>;

// Who goes first changes, so that neither gains by the machine's drift.
Pair run_pair(const Prepared& p, const std::string& directory, bool on_first) {
  Pair pair;
  if (!on_first) pair.off = run(p, "");
  pair.on = run(p, directory);
  if (on_first) pair.off = run(p, "");
  return pair;
}

// What --process does: a line for each pair.
void run_pairs(bool smoke, const std::string& directory) {
  for (std::size_t c = 0; c < std::size(kCases); ++c) {
    const Prepared p = prepare(kCases[c], smoke ? 20 : kCases[c].steps);
    (void)run(p, "");  // the first one is slower than those after it
    for (int i = 0; i < (smoke ? 1 : kCases[c].pairs); ++i) {
      const auto [on, off] = run_pair(p, directory, i % 2 == 1);
      fmt::print("{} {} {} {} {} {}\n", c, on.us, on.cpu_us, on.dropped, off.us, off.cpu_us);
    }
  }
}

// The pairs of one process more.
void add_process(bool smoke, Pairs& pairs) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* const process =
      ::popen(fmt::format("'{}' --process{}", self, smoke ? " --smoke" : "").c_str(), "r");
  RUBATO_CHECK(process, "another process starts");
  std::size_t c = 0;
  Pair p;
  while (std::fscanf(process, "%zu %lf %lf %" SCNu64 " %lf %lf", &c, &p.on.us, &p.on.cpu_us,
                     &p.on.dropped, &p.off.us, &p.off.cpu_us) == 6)
    pairs.at(c).push_back(p);
  RUBATO_CHECK(::pclose(process) == 0, "the process ends well");
}

// The medians, and that of the ratios within a pair.
Row row_of(const std::string& name, const std::vector<Pair>& pairs, double Run::*figure,
           const char* bar) {
  std::vector<double> with, without, ratios;
  for (const auto& [on, off] : pairs) {
    with.push_back(on.*figure);
    without.push_back(off.*figure);
    ratios.push_back(with.back() / without.back());
  }
  return {name, median(with), "us a step", "not profiled", median(without), bar, median(ratios)};
}

void measure(bool smoke, std::vector<Row>& rows) {
  Pairs pairs;
  for (int i = 0; i < (smoke ? 1 : kProcesses); ++i) add_process(smoke, pairs);
  for (std::size_t c = 0; c < std::size(kCases); ++c) {
    const std::string name = kCases[c].name;
    std::uint64_t dropped = 0;
    for (const Pair& pair : pairs[c]) dropped += pair.on.dropped;
    if (dropped > 0) fmt::print("{}: {} events dropped\n", name, dropped);
    rows.push_back(row_of(name, pairs[c], &Run::us, "<= 1.01"));
    rows.push_back(row_of(name + ", processor", pairs[c], &Run::cpu_us, ""));
  }
}

// One span: while the code that it measures runs, and all it costs until it is in the file.
std::vector<Row> measure_span(bool smoke, const std::string& directory) {
  const int rounds = smoke ? 3 : 101;
  constexpr int kSpans = 1000;  // fewer than a ring holds, flushed between rounds
  auto trace = expect(Trace::open(directory + "/span.json", TraceClock::Own));
  TraceLane* const lane = trace->process("bench").lane("io");
  const auto time = [](TraceLane* lane_or_null) {
    TraceLane* volatile where = lane_or_null;  // the compiler is not to know
    const Instant began = steady_now();
    for (int i = 0; i < kSpans; ++i)
      const TraceSpan span(where, Span::Send, {.worker = 3, .sequence = 41, .amount = 1 << 20});
    return static_cast<double>((steady_now() - began).ns) / kSpans;
  };
  std::vector<double> on, off;
  const double cpu_before = cpu_seconds();
  for (int i = 0; i < rounds; ++i) {
    on.push_back(time(lane));
    off.push_back(time(nullptr));
    std::this_thread::sleep_for(std::chrono::milliseconds(15));  // the ring empties
  }
  const auto totals = expect(trace->finish());
  RUBATO_CHECK(totals.dropped == 0, "the ring holds a round");
  const double written = (cpu_seconds() - cpu_before) * 1e9 / static_cast<double>(totals.written);
  return {{"one span, profiling on", median(on), "ns", "", 0, "<= 200"},
          {"one span until it is in the file, processor", written, "ns", "", 0, ""},
          {"one span, profiling off", median(off), "ns", "", 0, "<= 2"}};
}

}  // namespace

int main(int argc, char** argv) {
  const bench::RunOptions options = bench::parse_options(argc, argv);
  const bool process = options.others == std::vector<std::string>{"--process"};
  if (!options.others.empty() && !process) {
    fmt::print(stderr, "usage: {} [--smoke] [--json FILE]\n", argv[0]);
    return 2;
  }
  set_log_quiet(true);
  const auto directory =
      std::filesystem::temp_directory_path() / fmt::format("rubato-profile-{:x}", os_random());
  std::filesystem::create_directory(directory);
  std::vector<Row> rows;
  if (process) {
    run_pairs(options.smoke, directory.string());
  } else {
    rows = measure_span(options.smoke, directory.string());
    measure(options.smoke, rows);
  }
  std::filesystem::remove_all(directory);
  if (process) return 0;
  for (Row& row : rows) row.name = "profiling: " + row.name;
  const auto reported = bench::report(options, rows);
  if (reported) return 0;
  fmt::print(stderr, "profile_overhead: {}\n", reported.error().message);
  return 1;
}
