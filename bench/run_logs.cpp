// bench/run_logs.cpp - the hash of every run log: that a change left the behaviour of all sync
// models as it was. Each model on edge-3, edge-18 and edge-18-slow-net, with three seeds, in
// virtual time on the reference device, whose bits do not depend on the processor.
// Prints one line a run: cluster, model, seed, hash of the log, hash of the result.
// bench/run_logs.sh compares them with bench/run_logs.golden.txt. Usage: bench_run_logs
// DIRECTORY_OF_CLUSTERS [MODEL...]
#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cli/comparison.hpp"
#include "cli/results_json.hpp"
#include "emulation/virtual_cluster.hpp"
#include "proto/checksum.hpp"
#include "sync/factory.hpp"

namespace {

using namespace rubato;

constexpr int kSeeds = 3;

// What makes a run cheap; the plain loops of the reference device take ten times as long as others.
const std::vector<Setting> kSettings = {
    {"training.device", "\"reference\""}, {"training.batch", "8"}, {"evaluation.samples", "500"}};

std::uint64_t hash(const std::string& text) {
  return proto::checksum(std::as_bytes(std::span(text)));
}

Result<void> run_cluster(const std::string& directory, const std::string& name,
                         const std::vector<std::string>& models) {
  RUBATO_ASSIGN(const auto source, cluster::read_cluster(directory + "/" + name + ".toml"));
  RUBATO_ASSIGN(const auto config,
                cluster::parse_cluster(source.text, source.file, source.catalog_text, kSettings));
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    RUBATO_ASSIGN(const auto data, train::load_dataset(config.dataset, seed));
    for (const std::string& model : models) {
      proto::RunningChecksum log;
      emulation::VirtualOptions options;
      options.sync = model;
      options.seed = seed;
      options.threads = static_cast<int>(std::thread::hardware_concurrency());
      options.log = [&](const std::string& line) {
        log.add(std::as_bytes(std::span(line)));
        log.add(std::as_bytes(std::span("\n", 1)));
      };
      RUBATO_ASSIGN(auto record, emulation::run_virtual(config, data, options));
      cli::Comparison comparison;
      comparison.cluster = name;
      comparison.runs.push_back(std::move(record));
      fmt::print("{} {} {} {:016x} {:016x}\n", name, model, seed, log.value(),
                 hash(cli::results_json(comparison)));
      std::fflush(stdout);
    }
  }
  return {};
}

Result<void> run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return fail(ErrorCode::BadInput, "usage: DIRECTORY [MODEL...]");
  std::vector<std::string> models(arguments.begin() + 1, arguments.end());
  if (models.empty())
    for (const auto& info : sync::models()) models.emplace_back(info.name);
  for (const char* name : {"edge-3", "edge-18", "edge-18-slow-net"})
    RUBATO_TRY(run_cluster(arguments[0], name, models));
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
