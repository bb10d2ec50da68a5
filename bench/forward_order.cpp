// bench/forward_order.cpp - what training.early_forward gains: steps that begin with the layers
// that have arrived, and chunks that go by need across shards. The virtual cluster with it beside
// the same without: a commit after every step, real cores, layers and gradients, a step of 1 s of
// which a third is the way forward, links on which the bytes of the model take so many steps in one
// direction, about 65 chunks.
// Usage: bench_forward_order [--json FILE] [--quick | --smoke]
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "bench/rows.hpp"
#include "emulation/virtual_cluster.hpp"

namespace {

using namespace rubato;

constexpr double kChunks = 65;
constexpr double kLatency = 0.01;  // seconds, one way
// Commits: those in which the credit is found, and those measured.
constexpr int kSettling = 20;
constexpr int kMeasured = 20;

// The link whose bandwidth counts: each worker's own, or each server's, shared by all workers.
enum class Narrow { Worker, Server };

struct Case {
  std::string model;
  std::string sync;
  int shards = 1;
  int workers = 1;
  double byte_seconds = 0;  // of the model in one direction, over one worker's link or all servers'
  Narrow narrow = Narrow::Worker;
};

std::vector<int> hidden(const Case& at) {
  return at.model == "mlp" ? std::vector<int>{256} : std::vector<int>{};
}

train::DataSplit images() {
  train::DataSplit data;
  data.train.shape = {3, 32, 32};
  data.train.classes = 10;
  Rng rng(1);
  std::vector<float> features(20 * 3 * 32 * 32);
  for (float& feature : features) feature = static_cast<float>(rng.normal());
  data.train.features = std::move(features);
  for (int i = 0; i < 20; ++i) data.train.labels.push_back(i % 10);
  return data;
}

Result<cluster::ClusterConfig> config_of(const Case& at, double parameters) {
  const double mbps = 32e-6 * parameters / at.byte_seconds;
  const bool server = at.narrow == Narrow::Server;
  const std::string limit = fmt::format("up_mbps = {0}\ndown_mbps = {0}", mbps / at.shards);
  return cluster::parse_cluster(
      fmt::format(R"(
[[workers]]
name = "edge"
count = {}
step_seconds = 1
latency_seconds = {}
{}
[servers]
count = {}
{}
[model]
kind = "{}"
{}
[training]
batch = 1
learning_rate = 1e-4
[wire]
chunk_kib = {}
[stop]
max_steps = {}
)",
                  at.workers, kLatency,
                  server ? "" : fmt::format("up_mbps = {0}\ndown_mbps = {0}", mbps), at.shards,
                  server ? limit : "", at.model, at.model == "mlp" ? "hidden = [256]" : "",
                  std::max(4.0, std::ceil(parameters * 4 / 1024 / kChunks)),
                  (kSettling + kMeasured) * at.workers),
      "order", "");
}

// Seconds from one step's end to the next, of the first worker.
Result<double> cycle(cluster::ClusterConfig config, const train::DataSplit& data,
                     const std::string& sync, bool early) {
  config.training.early_forward = early;
  std::vector<double> ends;
  emulation::VirtualOptions options;
  options.sync = sync;
  options.log = [&](const std::string& line) {
    double seconds = 0;
    unsigned worker = 0, step = 0;
    if (std::sscanf(line.c_str(), "%lf worker %u step %u", &seconds, &worker, &step) == 3 &&
        worker == 0)
      ends.push_back(seconds);
  };
  RUBATO_TRY(emulation::run_virtual(config, data, options));
  if (ends.size() <= kSettling + 1) return fail(ErrorCode::Io, "too few steps in the run log");
  return (ends.back() - ends[kSettling]) / static_cast<double>(ends.size() - 1 - kSettling);
}

Result<bench::Row> measure(const Case& at, const train::DataSplit& data) {
  RUBATO_ASSIGN(const auto spec,
                train::make_model({.kind = at.model, .hidden = hidden(at)}, data.train.shape, 10));
  RUBATO_ASSIGN(const auto config,
                config_of(at, static_cast<double>(train::parameter_count(spec))));
  RUBATO_ASSIGN(const double without, cycle(config, data, at.sync, false));
  RUBATO_ASSIGN(const double with, cycle(config, data, at.sync, true));
  return bench::Row{.name = fmt::format("{}, {}, {} worker{}, {} shard{}, bytes {} steps{}",
                                        at.model, at.sync, at.workers, at.workers == 1 ? "" : "s",
                                        at.shards, at.shards == 1 ? "" : "s", at.byte_seconds,
                                        at.narrow == Narrow::Server ? " at the servers" : ""),
                    .value = with,
                    .unit = "s a commit",
                    .peer = "without",
                    .peer_value = without,
                    .bar = {}};
}

Result<void> run(const bench::RunOptions& options) {
  const auto data = images();
  std::vector<Case> cases;
  const std::vector<double> all = {0.1, 0.3, 1.0, 3.0, 10.0};
  for (const char* model : {"mlp", "cnn"})
    for (const char* sync : {"asp", "bsp"})
      for (const int shards : {1, 4})
        for (const double byte_seconds : all)
          cases.push_back({model, sync, shards, 1, byte_seconds});
  for (const char* sync : {"asp", "bsp"})
    for (const Narrow narrow : {Narrow::Worker, Narrow::Server})
      for (const double byte_seconds : all)
        cases.push_back({"cnn", sync, 4, 4, byte_seconds, narrow});
  std::vector<bench::Row> rows;
  for (const Case& at : cases) {
    if (options.smoke && (at.byte_seconds != 1 || at.model != "mlp" || at.shards == 1)) continue;
    RUBATO_ASSIGN(auto row, measure(at, data));
    rows.push_back(std::move(row));
  }
  return bench::report(options, rows);
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto done = run(bench::parse_options(argc, argv)); !done) {
    fmt::print(stderr, "bench_forward_order: {}\n", done.error().message);
    return 1;
  }
  return 0;
}
