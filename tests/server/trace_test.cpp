// Golden traces: whole exchanges between the real cores, as text that can be read as documentation
// of the protocol. RUBATO_REWRITE=1 writes them anew; the diff shows what changed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "base/file.hpp"
#include "sync/adsp.hpp"
#include "tests/server/core_cluster.hpp"

namespace rubato::tests {
namespace {

void check_golden(const std::string& name, const std::string& trace) {
  const std::string path = fmt::format("{}/{}.txt", RUBATO_TRACES, name);
  if (std::getenv("RUBATO_REWRITE")) {
    std::ofstream(path) << trace;
    MESSAGE("wrote " << path);
  }
  const auto golden = read_file(path);
  REQUIRE(golden.has_value());
  CHECK(trace == *golden);
}

CoreClusterOptions two_workers() {
  CoreClusterOptions options;
  options.step_times = {Duration::from_ms(100), Duration::from_ms(250)};
  options.initial = {8, 4, 2, 1};
  options.trace = true;
  return options;
}

TEST_CASE("trace: a BSP run of two workers and two shards, from Hello to Leave") {
  auto options = two_workers();
  options.servers = 2;
  options.chunk = 2;
  options.stop.max_steps = 6;
  CoreCluster cluster(options);
  cluster.run_until([&] { return cluster.scheduler().over(); });
  cluster.run_for(options.latency * 2);  // the servers hear of it
  check_golden("bsp",
               "# BSP: two workers (0.1 s and 0.25 s a step), two shards of two parameters, 1 ms a "
               "message.\n"
               "# Each line is an arrival: seconds, sender -> receiver: message. Replies to worker "
               "0 say how\n"
               "# long the gate held its commit for worker 1; the run ends after 6 steps.\n" +
                   cluster.trace());
}

TEST_CASE(
    "trace: an ADSP run of two workers at a fixed rate, training while commits are under way") {
  auto options = two_workers();
  options.sync = "adsp";
  options.sync_options.of<sync::AdspOptions>().check_period = Duration::from_seconds(1);
  options.sync_options.of<sync::AdspOptions>().fixed_rate = 2;
  options.sync_options.of<sync::AdspOptions>().overlap = true;
  options.latency = Duration::from_ms(60);
  options.stop.max_seconds = 1.5;
  CoreCluster cluster(options);
  cluster.run_until([&] { return cluster.scheduler().over(); });
  cluster.run_for(options.latency * 2);  // the servers hear of it
  check_golden(
      "adsp",
      "# ADSP: two workers (0.1 s and 0.25 s a step), one shard, 60 ms a message, a fixed rate of\n"
      "# 2 commits per check period of 1 s. Workers train on while a commit is under way. Nobody\n"
      "# waits for the other. Both commit equally often; worker 0 makes more steps each time.\n" +
          cluster.trace());
}

TEST_CASE("trace: a tempo run of two workers, whose rates follow how their updates lie") {
  auto options = two_workers();
  options.sync = "tempo";
  options.latency = Duration::from_ms(60);
  options.stop.max_seconds = 1.5;
  CoreCluster cluster(options);
  cluster.run_until([&] { return cluster.scheduler().over(); });
  cluster.run_for(options.latency * 2);  // the servers hear of it
  check_golden(
      "tempo",
      "# Tempo: two workers (0.1 s and 0.25 s a step), one shard, 60 ms a message. A worker\n"
      "# commits again as soon as the last reply is there and trains on meanwhile. From its\n"
      "# third commit on a report brings cosines, and the scheduler tells both their rates. A "
      "step\n"
      "# at half the local rate counts for two: weight=2.\n" +
          cluster.trace());
}

}  // namespace
}  // namespace rubato::tests
