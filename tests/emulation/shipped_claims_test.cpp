// What the shipped clusters show, on real data: ADSP's saving against BSP, and who waits. The bars
// are far below the measured figures (docs/sync.md), so that no seed or CPU misses them.
#include <doctest/doctest.h>

#include "emulation/virtual_cluster.hpp"

namespace rubato::emulation {
namespace {

const worker::DataSplit& fashion_mnist() {
  static const auto data = worker::load_dataset({}, 1);
  REQUIRE_MESSAGE(data.has_value(), data.error().message);
  return *data;
}

RunRecord run(const std::string& cluster, const std::string& sync) {
  auto config = load_cluster(std::string(RUBATO_SOURCE_DIR) + "/deploy/clusters/" + cluster);
  REQUIRE_MESSAGE(config.has_value(), config.error().message);
  config->evaluation.samples = 2000;
  VirtualOptions options;
  options.sync = sync;
  options.threads = 2;
  auto record = run_virtual(*config, fashion_mnist(), options);
  REQUIRE_MESSAGE(record.has_value(), record.error().message);
  REQUIRE(record->time_to_target_seconds.has_value());
  return *record;
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

}  // namespace
}  // namespace rubato::emulation
