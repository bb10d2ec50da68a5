// Timing only: the same times, steps, commits and bytes as the run that trains; what it refuses;
// and a cluster of a thousand workers.
#include <doctest/doctest.h>

#include <string>

#include "cluster/cluster_plan.hpp"
#include "sync/adsp.hpp"
#include "sync/ssp.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

cluster::ClusterConfig timing_of(cluster::ClusterConfig config, std::uint64_t parameters) {
  config.model = {.kind = "timing", .hidden = {}, .parameters = parameters};
  return config;
}

std::string refusal(const cluster::ClusterConfig& config, const std::string& sync) {
  const auto checked = cluster::check_sync(config, sync);
  return checked ? "" : checked.error().message;
}

// Unequal workers behind slow links, two shards, chunks of a part of a shard.
cluster::ClusterConfig unequal_cluster() {
  cluster::ClusterConfig config = small_cluster({0.1, 0.13, 0.7, 0.31});
  for (auto& group : config.workers) {
    group.device.jitter = 0.2;
    group.link = {.latency_seconds = 0.03,
                  .jitter = 0.4,
                  .up_bytes_per_second = 20'000,
                  .down_bytes_per_second = 50'000};
  }
  config.servers.count = 2;
  config.servers.apply_bytes_per_second = 1e6;
  config.chunk_bytes = 200;
  config.sync.of<sync::SspOptions>().staleness = 2;
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(5);
  config.sync.of<sync::AdspOptions>().fixed_rate = 4;
  return config;
}

void check_same_timing(const cluster::ClusterConfig& config, const std::string& sync) {
  const auto data = small_blobs();
  const auto plan = cluster::make_plan(config, sync, 1, data.train.shape, data.train.classes);
  REQUIRE(plan.has_value());
  const RunRecord full = run(config, data, sync).record;
  const RunRecord timed = run(timing_of(config, plan->parameters), {}, sync).record;
  REQUIRE(full.steps > 100);
  CHECK(timed.stop_reason == full.stop_reason);
  CHECK(timed.seconds == full.seconds);
  CHECK(timed.steps == full.steps);
  CHECK(timed.commits == full.commits);
  CHECK(timed.bytes_up == full.bytes_up);
  CHECK(timed.bytes_down == full.bytes_down);
  CHECK(timed.compute_share == full.compute_share);
  CHECK(timed.wait_share == full.wait_share);
  CHECK(timed.communicate_share == full.communicate_share);
  CHECK(timed.heterogeneity == full.heterogeneity);
  REQUIRE(timed.workers.size() == full.workers.size());
  for (std::size_t i = 0; i < full.workers.size(); ++i) {
    CHECK(timed.workers[i].steps == full.workers[i].steps);
    CHECK(timed.workers[i].commits == full.workers[i].commits);
    CHECK(timed.workers[i].wait.seconds() == full.workers[i].wait.seconds());
    CHECK(timed.workers[i].communicate.seconds() == full.workers[i].communicate.seconds());
  }
  CHECK(full.measured());
  CHECK_FALSE(timed.measured());
}

}  // namespace

TEST_CASE("timing only: a run on limited links has twice the events in twice the time") {
  auto config = timing_of(unequal_cluster(), 20'000);
  config.chunk_bytes = 4000;
  const auto events = [&](double seconds) {
    config.stop.max_seconds = seconds;
    VirtualOptions options;
    options.sync = "asp";
    std::size_t calls = 0;  // one each so many events
    options.progress = [&](const VirtualProgress&) { ++calls; };
    REQUIRE(run_virtual(config, {}, options).has_value());
    return static_cast<double>(calls);
  };
  const double short_run = events(8000);
  REQUIRE(short_run >= 8);
  CHECK(events(16'000) <= 2.3 * short_run);
}

TEST_CASE("timing only agrees with the run that trains, to the last byte and nanosecond") {
  for (const std::string sync : {"bsp", "asp", "ssp", "adsp", "local-sgd", "dylu", "dssp"}) {
    CAPTURE(sync);
    check_same_timing(unequal_cluster(), sync);
  }
}

TEST_CASE("timing only counts the bytes of compressed payloads") {
  using proto::PayloadCodec;
  cluster::ClusterConfig config = unequal_cluster();
  config.workers[0].codecs = {.up = {PayloadCodec::TopK, 0.1}, .down = {PayloadCodec::Int8}};
  config.workers[1].codecs = {.up = {PayloadCodec::Int8}, .down = {PayloadCodec::F16}};
  config.workers[2].codecs = {.up = {PayloadCodec::Bf16}, .down = {PayloadCodec::TopK, 0.2}};
  for (const std::string sync : {"bsp", "asp"}) {
    CAPTURE(sync);
    check_same_timing(config, sync);
  }
}

TEST_CASE("timing only and training agree where no codec is worthwhile") {
  using proto::PayloadCodec;
  cluster::ClusterConfig config = unequal_cluster();
  config.workers[0].codecs = {.up = {PayloadCodec::TopK, 1}, .down = {PayloadCodec::TopK, 1}};
  config.workers[1].codecs = {.up = {PayloadCodec::Int8}, .down = {PayloadCodec::Int8}};
  config.workers[2].codecs = {.up = {PayloadCodec::TopK, 1e-9}, .down = {PayloadCodec::TopK, 1e-9}};
  for (const std::uint64_t chunk_bytes : {200, 12, 8}) {
    CAPTURE(chunk_bytes);
    config.chunk_bytes = chunk_bytes;
    config.stop.max_seconds = 40;
    for (const std::string sync : {"bsp", "asp"}) {
      CAPTURE(sync);
      check_same_timing(config, sync);
    }
  }
}

TEST_CASE("timing only refuses what needs a loss, in one line that says what to do") {
  cluster::ClusterConfig config = timing_of(small_cluster({1}), 10);
  CHECK(refusal(config, "bsp").empty());
  CHECK(refusal(config, "adsp") ==
        "sync.adsp.fixed_rate: model.kind = \"timing\" has no loss to search a rate by; give the "
        "rate");
  CHECK(refusal(config, "adacomm") ==
        "sync = \"adacomm\": model.kind = \"timing\" has no loss to lower local_steps by; use "
        "local-sgd");
  for (const std::string sync : {"semi-sync", "sync-switch"})
    CHECK(refusal(config, sync) ==
          "dataset.samples: model.kind = \"timing\" has no data to count; say how many samples " +
              sync + " passes over");
  config.dataset.samples = 600;
  config.sync.of<sync::AdspOptions>().fixed_rate = 3;
  CHECK(refusal(config, "semi-sync").empty());
  CHECK(refusal(config, "sync-switch").empty());
  CHECK(refusal(config, "adsp").empty());
  config.stop.target_loss = 0.5;
  CHECK(refusal(config, "bsp") ==
        "stop.target_loss: model.kind = \"timing\" has no loss; leave it out, and stop by "
        "max_seconds");
  CHECK_FALSE(cluster::require_trainable(config).has_value());
}

TEST_CASE("a thousand workers on two shards: everybody starts, BSP keeps them together") {
  cluster::ClusterConfig config = timing_of(small_cluster({0.5}), 1000);
  config.workers[0].count = 900;
  config.workers.push_back(
      {.name = "slow", .count = 100, .device = {.step_seconds = 2, .jitter = 0}, .link = {}});
  set_latency(config, 0.05);
  config.servers.count = 2;
  config.stop.max_seconds = 21.05;
  const RunRecord bsp = run(config, {}, "bsp").record;
  CHECK(bsp.workers.size() == 1000);
  for (const auto& worker : bsp.workers) {
    REQUIRE(worker.commits == 9);  // 2.1 s each; the tenth is under way
    REQUIRE(worker.fate == "member");
  }
  const RunRecord asp = run(config, {}, "asp").record;
  CHECK(asp.wait_share == 0);
  CHECK(asp.workers[0].commits > 3 * asp.workers[999].commits);
}
