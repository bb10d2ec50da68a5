// bench/parameter_path.cpp - the parameter path beside its limits, in one run: commit + pull
// goodput and small round trip beside plain libzmq loops (bench/raw_zmq.hpp), the server's apply
// beside axpy, the control frame, what a step pays, and curves over workers, shards and sizes.
// Loopback TCP; every pair is measured in turns, and the medians of the turns are compared.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "bench/path_pair.hpp"
#include "bench/raw_zmq.hpp"

namespace {

using namespace rubato;
using namespace rubato::bench;

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  std::string peer;
  std::optional<double> peer_value;
  std::optional<double> ratio;  // ours to the peer's
  std::string bar;
};

std::vector<Row> rows;

void report(Row row) {
  if (row.peer_value && !row.ratio) row.ratio = row.value / *row.peer_value;
  fmt::print("{:<44} {:>10.4g} {:<6} {:<26} {:>10} {:>7} {}\n", row.name, row.value, row.unit,
             row.peer, row.peer_value ? fmt::format("{:.4g}", *row.peer_value) : "",
             row.ratio ? fmt::format("{:.3f}", *row.ratio) : "", row.bar);
  std::fflush(stdout);
  rows.push_back(std::move(row));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& work) {
  const Instant began = steady_now();
  work();
  return (steady_now() - began).seconds();
}

// Runs the works in turns, `turns` times after one to warm up. Returns: the median seconds of each.
std::vector<double> in_turns(int turns, const std::vector<std::function<void()>>& works) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int turn = -1; turn < turns; ++turn)
    for (std::size_t i = 0; i < works.size(); ++i) {
      const double took = seconds_of(works[i]);
      if (turn >= 0) seconds[i].push_back(took);
    }
  std::vector<double> medians;
  for (auto& each : seconds) medians.push_back(median(std::move(each)));
  return medians;
}

std::string size_text(std::size_t bytes) {
  if (bytes >= (1u << 20)) return fmt::format("{}MiB", bytes >> 20);
  return fmt::format("{}KiB", bytes >> 10);
}

void goodput(std::size_t bytes, int turns) {
  PathServers servers(bytes / sizeof(float), 1, 1);
  PathWorker ours(servers, 0);
  RawPair adding(bytes, RawPair::Arithmetic::Yes);
  RawPair moving(bytes, RawPair::Arithmetic::No);
  const int rounds = static_cast<int>(std::clamp<std::size_t>((32u << 20) / bytes, 1, 200));
  const auto repeat = [rounds](auto& pair) {
    return [rounds, &pair] {
      for (int i = 0; i < rounds; ++i) pair.round();
    };
  };
  const auto seconds = in_turns(turns, {repeat(ours), repeat(adding), repeat(moving)});
  const auto rate = [&](double s) { return 2.0 * static_cast<double>(bytes) * rounds / s / 1e9; };
  const std::string bar = bytes >= (16u << 20) && bytes <= (64u << 20) ? ">= 0.95" : "";
  report({"commit+pull " + size_text(bytes),
          rate(seconds[0]),
          "GB/s",
          "raw ZeroMQ, adds",
          rate(seconds[1]),
          {},
          bar});
  report({"commit+pull " + size_text(bytes),
          rate(seconds[0]),
          "GB/s",
          "raw ZeroMQ, moves only",
          rate(seconds[2]),
          {},
          ""});
}

}  // namespace

#include <malloc.h>
int main(int argc, char** argv) {
  if (std::getenv("TUNE")) {
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 4 << 20);
  }
  if (argc > 2 && std::string(argv[1]) == "--commit") {  // for a profiler: nothing but this
    const std::size_t bytes = static_cast<std::size_t>(std::stoul(argv[2])) << 20;
    PathServers servers(bytes / sizeof(float), 1, 1);
    PathWorker worker(servers, 0);
    for (int i = 0; i < 400; ++i) worker.round();
    return 0;
  }
  for (const std::size_t kib : {1024u, 16384u, 65536u}) goodput(kib << 10, 15);
}
