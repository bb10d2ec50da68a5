// What the shipped clusters and the study of codecs show, on real data: ADSP's saving against BSP,
// who waits, and what a codec costs or saves. The bars are far below the measured figures
// (docs/measurements/sync-models.md and compression.md), so that no seed or CPU misses them.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "emulation/virtual_cluster.hpp"
#include "tests/emulation/virtual_runs.hpp"

namespace rubato::emulation {
namespace {

const train::DataSplit& fashion_mnist() {
  static const auto data = train::load_dataset({}, 1);
  REQUIRE_MESSAGE(data.has_value(), data.error().message);
  return *data;
}

cluster::ClusterConfig load(const std::string& cluster) {
  auto config =
      cluster::load_cluster(std::string(RUBATO_SOURCE_DIR) + "/deploy/clusters/" + cluster);
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  return *config;
}

RunRecord run(const cluster::ClusterConfig& config, const std::string& sync,
              std::uint64_t seed = 1) {
  VirtualOptions options;
  options.sync = sync;
  options.seed = seed;
  options.threads = 2;
  auto record = run_virtual(config, fashion_mnist(), options);
  REQUIRE_MESSAGE(record.has_value(), record.error().message);
  REQUIRE(record->time_to_target_seconds.has_value());
  return *record;
}

RunRecord run(const std::string& cluster, const std::string& sync) {
  cluster::ClusterConfig config = load(cluster);
  config.evaluation.samples = 2000;
  return run(config, sync);
}

// A run of deploy/studies/codecs.toml. `mbps`: 0 is unlimited.
RunRecord run_codec(const std::string& sync, double mbps, const cluster::WireCodecs& codecs) {
  cluster::ClusterConfig config = load("edge-3.toml");
  config.model.hidden = {16};
  config.evaluation.samples = 1000;
  config.stop.target_loss = 0.5;
  config.stop.max_seconds = 4000;
  set_links(config, mbps, codecs);
  return run(config, sync);
}

double saving(const RunRecord& bsp, const RunRecord& adsp) {
  return 1 - *adsp.time_to_target_seconds / *bsp.time_to_target_seconds;
}

TEST_CASE("edge-3: ADSP saves a quarter of BSP's time and waits for nobody") {
  const RunRecord bsp = run("edge-3.toml", "bsp");
  const RunRecord adsp = run("edge-3.toml", "adsp");
  CHECK(saving(bsp, adsp) >= 0.25);
  CHECK(adsp.wait_share == 0.0);
  // Two workers wait 1 s of every round of 1.7 s.
  CHECK(bsp.wait_share == doctest::Approx(2 * 1.0 / (3 * 1.7)).epsilon(0.01));
}

TEST_CASE("edge-18: ADSP saves over half of BSP's time, and BSP waits 44 %") {
  const RunRecord bsp = run("edge-18.toml", "bsp");
  const RunRecord adsp = run("edge-18.toml", "adsp");
  CHECK(saving(bsp, adsp) >= 0.55);
  CHECK(adsp.wait_share == 0.0);
  CHECK(bsp.heterogeneity == doctest::Approx(3.2).epsilon(0.01));
  CHECK(bsp.wait_share == doctest::Approx(0.45).epsilon(0.03));
}

TEST_CASE("edge-3-skewed: tempo's servers have momentum for three workers, and are there sooner") {
  cluster::ClusterConfig config = load("edge-3-skewed.toml");
  config.evaluation.samples = 2000;
  double with = 0, without = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    config.optimizer.kind.reset();
    with += *run(config, "tempo", seed).time_to_target_seconds;
    config.optimizer.kind = cluster::ServerOptimizer::Sgd;
    without += *run(config, "tempo", seed).time_to_target_seconds;
  }
  CHECK(with < 0.9 * without);
}

TEST_CASE("codecs: int8 costs nothing on a fast link, and on a slow one saves half of BSP's time") {
  using proto::PayloadCodec;
  const auto both = [](PayloadCodec codec) {
    return cluster::WireCodecs{.up = {codec}, .down = {codec}};
  };
  const auto seconds = [](const RunRecord& record) { return *record.time_to_target_seconds; };
  const cluster::WireCodecs automatic{.up = {}, .down = {}, .auto_up = true, .auto_down = true};
  for (const std::string sync : {"adsp", "bsp"}) {
    CAPTURE(sync);
    const RunRecord plain = run_codec(sync, 0, {});
    const RunRecord int8 = run_codec(sync, 0, both(PayloadCodec::Int8));
    CHECK(seconds(int8) == doctest::Approx(seconds(plain)).epsilon(0.15));
    CHECK(int8.bytes_up < 0.33 * plain.bytes_up);
  }
  const double plain = seconds(run_codec("bsp", 0.1, {}));
  const double int8 = seconds(run_codec("bsp", 0.1, both(PayloadCodec::Int8)));
  const double top_k = seconds(run_codec("bsp", 0.1, both(PayloadCodec::TopK)));
  CHECK(int8 < 0.55 * plain);
  CHECK(top_k < 0.7 * int8);
  CHECK(seconds(run_codec("bsp", 0.1, automatic)) < 0.75 * int8);
}

TEST_CASE("codecs: under ADSP top-k costs more time than even a slow link would") {
  using proto::PayloadCodec;
  const RunRecord plain = run_codec("adsp", 0.1, {});
  const RunRecord top_k =
      run_codec("adsp", 0.1, {.up = {PayloadCodec::TopK}, .down = {PayloadCodec::TopK}});
  CHECK(*top_k.time_to_target_seconds > 1.5 * *plain.time_to_target_seconds);
  CHECK(top_k.bytes_up < 0.5 * plain.bytes_up);
}

}  // namespace
}  // namespace rubato::emulation
