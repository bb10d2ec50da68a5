// bench/parameter_path.cpp - the parameter path beside its limits, in one run: commit + pull
// goodput and small round trip beside plain libzmq loops (bench/raw_zmq.hpp), the server's apply
// beside axpy, the control frame, what a step pays, credit, and curves over sizes, workers and
// shards. Loopback TCP; what is compared is measured in turns, and the medians are.
//   --quick       fewer turns                     --full   up to 256 MiB instead of 64
//   --json FILE   the rows for bench/run.sh       --smoke  one small turn of each
//   --curve       only the rows that compare keys and none
//   [--apart] --commit KIB | --raw KIB   rounds of that size and nothing else, for a profiler;
//                                 apart: server and worker on a core each
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/memory.hpp"
#include "base/time.hpp"
#include "bench/ends.hpp"
#include "bench/path_pair.hpp"
#include "bench/path_rows.hpp"
#include "bench/raw_zmq.hpp"

namespace {

using namespace rubato;
using namespace rubato::bench;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

struct Options {
  std::size_t bytes_max = 64 * kMiB;
  int turns = 15;
  bool smoke = false;
  bool curve = false;
  Ends ends = Ends::Anywhere;  // of a profile
  std::string json;
};

std::string size_text(std::size_t bytes) {
  return bytes >= kMiB ? fmt::format("{}MiB", bytes / kMiB) : fmt::format("{}KiB", bytes / kKiB);
}

template <class Pair>
auto repeated(Pair& pair, int rounds) {
  return [&pair, rounds] {
    for (int i = 0; i < rounds; ++i) pair.round();
  };
}

auto repeated(RawProcess& raw, int rounds) {
  return [&raw, rounds] { raw.rounds(rounds); };
}

// About 64 MiB each way a turn, or 200 rounds of a small model.
int rounds_of(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>(64 * kMiB / bytes, 1, 200));
}

// Enough commits for a 99th percentile.
std::size_t latencies_of(std::size_t bytes) {
  return std::clamp<std::size_t>(2048 * kMiB / bytes, 100, 2000);
}

// Seconds of each of so many rounds.
template <class Pair>
std::vector<double> round_seconds(Pair& pair, std::size_t count) {
  std::vector<double> seconds;
  while (seconds.size() < count) {
    const Instant began = steady_now();
    pair.round();
    seconds.push_back((steady_now() - began).seconds());
  }
  return seconds;
}

// Commit and pull together: what goes up and what comes down.
void goodput_rows(Rows& rows, std::size_t bytes, const Options& options) {
  PathPair ours(bytes / sizeof(float));
  RawProcess adding(bytes, RawPair::Arithmetic::Yes);
  RawProcess moving(bytes, RawPair::Arithmetic::No);
  const int rounds = rounds_of(bytes);
  const auto seconds = in_turns(
      options.turns, {repeated(ours, rounds), repeated(adding, rounds), repeated(moving, rounds)});
  const auto rate = [&](double s) { return 2e-9 * static_cast<double>(bytes) * rounds / s; };
  const bool judged = bytes >= 16 * kMiB && bytes <= 64 * kMiB;
  const std::string name = "commit+pull " + size_text(bytes);
  rows.add({.name = name,
            .value = rate(seconds[0]),
            .unit = "GB/s",
            .peer = "raw ZeroMQ that adds",
            .peer_value = rate(seconds[1]),
            .bar = judged ? ">= 0.95" : ""});
  rows.add({.name = name + ", no arithmetic",
            .value = rate(seconds[0]),
            .unit = "GB/s",
            .peer = "raw ZeroMQ that only moves",
            .peer_value = rate(seconds[2])});
  latency_rows(rows, name, round_seconds(ours, options.smoke ? 10 : latencies_of(bytes)));
}

void round_trip_row(Rows& rows, int turns, Ends ends) {
  constexpr std::size_t kBytes = 4 * kKiB;
  constexpr int kRounds = 500;
  const bool apart = ends == Ends::Apart;
  RawProcess raw(kBytes, RawPair::Arithmetic::Yes, ends);
  PathPair ours(kBytes / sizeof(float), ends);
  const auto seconds = in_turns(turns, {repeated(ours, kRounds), repeated(raw, kRounds)});
  rows.add({.name = apart ? "commit round trip 4KiB" : "commit round trip 4KiB, threads anywhere",
            .value = seconds[0] / kRounds * 1e6,
            .unit = "us",
            .peer = "raw DEALER/ROUTER",
            .peer_value = seconds[1] / kRounds * 1e6,
            .bar = apart ? "<= 1.15" : ""});
}

// The same pair with keys and without.
void curve_rows(Rows& rows, std::size_t bytes, const Options& options) {
  PathPair curve(bytes / sizeof(float), Ends::Anywhere, Wire::Curve);
  PathPair plain(bytes / sizeof(float));
  const int rounds = rounds_of(bytes);
  const auto seconds = in_turns(options.turns, {repeated(curve, rounds), repeated(plain, rounds)});
  const bool small = bytes < kMiB;
  const auto figure = [&](double s) {
    return small ? s / rounds * 1e6 : 2e-9 * static_cast<double>(bytes) * rounds / s;
  };
  rows.add({.name = (small ? "commit round trip " : "commit+pull ") + size_text(bytes) + ", CURVE",
            .value = figure(seconds[0]),
            .unit = small ? "us" : "GB/s",
            .peer = "without keys",
            .peer_value = figure(seconds[1])});
}

// In a thread of its own: it does not come back from the core that it went to.
void round_trip_rows(Rows& rows, int turns) {
  for (const Ends ends : {Ends::Apart, Ends::Anywhere})
    std::jthread([&] { round_trip_row(rows, turns, ends); });
}

// Workers on one server, in as many threads as there are up to four; goodput of all together. The
// workers of a thread commit at once and wait for each other. The first thread has one, which
// commits whenever those of the second do: its commits are the ones whose time is told.
class Crowd {
 public:
  Crowd(std::uint32_t workers, std::size_t bytes)
      : servers_(bytes / sizeof(float), 1, workers), timed_(servers_.shards(), 0, 1) {
    const std::uint32_t others = workers - 1, threads = std::min(others, 3u);
    for (std::uint32_t i = 0; i < threads; ++i) {
      const std::uint32_t first = i * others / threads, end = (i + 1) * others / threads;
      others_.push_back(std::make_unique<PathWorkers>(servers_.shards(), 1 + first, end - first));
    }
  }

  // So many commits of every worker. Returns: the seconds of those of the first.
  std::vector<double> commit(int rounds) {
    std::atomic<int> begun = others_.empty() ? rounds : 0;  // by the workers of the second thread
    std::vector<std::jthread> running;
    for (auto& workers : others_)
      running.emplace_back([&, first = &workers == &others_.front()] {
        for (int i = 0; i < rounds; ++i) {
          if (first) {
            ++begun;
            begun.notify_one();
          }
          workers->round();
        }
      });
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) {
      while (begun <= i) begun.wait(i);
      const Instant began = steady_now();
      timed_.round();
      seconds.push_back((steady_now() - began).seconds());
    }
    return seconds;
  }

 private:
  PathServers servers_;
  PathWorkers timed_;
  std::vector<std::unique_ptr<PathWorkers>> others_;
};

void workers_rows(Rows& rows, std::uint32_t workers, std::size_t bytes, const Options& options) {
  Crowd crowd(workers, bytes);
  const int rounds = options.smoke ? 2 : std::max(25, static_cast<int>(1024 / workers));
  std::vector<double> latencies;
  const auto seconds = in_turns(options.turns, {[&] {
                                  const auto some = crowd.commit(rounds);
                                  latencies.insert(latencies.end(), some.begin(), some.end());
                                }});
  const double commits = static_cast<double>(rounds) * workers;
  const auto name = fmt::format("{} workers, commit+pull {}", workers, size_text(bytes));
  rows.add({.name = name,
            .value = 2e-9 * static_cast<double>(bytes) * commits / seconds[0],
            .unit = "GB/s"});
  latency_rows(rows, name, latencies);
}

void shards_rows(Rows& rows, std::uint32_t shards, std::size_t bytes, const Options& options) {
  PathServers servers(bytes / sizeof(float), shards, 1);
  PathWorkers worker(servers.shards(), 0, 1);
  const int rounds = rounds_of(bytes);
  const auto seconds = in_turns(options.turns, {repeated(worker, rounds)});
  const auto name = fmt::format("{} shards, commit+pull {}", shards, size_text(bytes));
  rows.add({.name = name,
            .value = 2e-9 * static_cast<double>(bytes) * rounds / seconds[0],
            .unit = "GB/s"});
  latency_rows(rows, name, round_seconds(worker, options.smoke ? 10 : latencies_of(bytes)));
}

void all_curve_rows(Rows& rows, const Options& options) {
  for (const std::size_t bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB})
    if (bytes <= options.bytes_max) curve_rows(rows, bytes, options);
}

void run_all(Rows& rows, const Options& options) {
  const int turns = options.turns;
  for (std::size_t bytes = 4 * kKiB; bytes <= options.bytes_max; bytes *= 4)
    goodput_rows(rows, bytes, options);
  round_trip_rows(rows, turns);
  all_curve_rows(rows, options);
  apply_rows(rows, turns);
  control_frame_row(rows, turns);
  step_rows(rows, options.smoke ? 50 : 2000);
  if (!options.smoke) credit_row(rows);
  for (const std::uint32_t workers : {1u, 8u, 64u, 512u}) {
    if (options.smoke && workers > 8) break;
    workers_rows(rows, workers, 64 * kKiB, options);
    workers_rows(rows, workers, 4 * kKiB, options);
  }
  for (const std::uint32_t shards : {1u, 2u, 4u})
    shards_rows(rows, shards, std::min(options.bytes_max, 16 * kMiB), options);
}

int profile(std::string_view what, std::size_t bytes, Ends ends) {
  const int rounds = static_cast<int>(std::clamp<std::size_t>(8 * 1024 * kMiB / bytes, 1, 200'000));
  if (what == "--raw") {
    RawPair raw(bytes, RawPair::Arithmetic::Yes, ends);
    repeated(raw, rounds)();
  } else {
    PathPair ours(bytes / sizeof(float), ends);
    repeated(ours, rounds)();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();  // as the rubato command does, and the raw peer beside it
  if (argc > 1 && std::string_view(argv[1]) == kRawFlag)
    return serve_raw(std::span(argv, static_cast<std::size_t>(argc)).subspan(2));
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const bool last = i + 1 == argc;
    if (flag == "--quick") {
      options.turns = 5;
    } else if (flag == "--full") {
      options.bytes_max = 256 * kMiB;
    } else if (flag == "--smoke") {
      options = {.bytes_max = 64 * kKiB,
                 .turns = 1,
                 .smoke = true,
                 .curve = options.curve,
                 .ends = {},
                 .json = options.json};
    } else if (flag == "--json" && !last) {
      options.json = argv[++i];
    } else if ((flag == "--commit" || flag == "--raw") && !last) {
      return profile(flag, std::stoul(argv[i + 1]) * kKiB, options.ends);
    } else if (flag == "--curve") {
      options.curve = true;
    } else if (flag == "--apart") {
      options.ends = Ends::Apart;
    } else {
      fmt::print(stderr, "parameter_path: unknown option '{}'\n", flag);
      return 2;
    }
  }
  Rows rows;
  options.curve ? all_curve_rows(rows, options) : run_all(rows, options);
  const auto written = write_json(options.json, rows.all());
  if (written) return 0;
  fmt::print(stderr, "parameter_path: {}\n", written.error().message);
  return 1;
}
