// Same config, model and seed: the same bytes, whatever computes them.
#include <doctest/doctest.h>

#include <string>

#include "sync/adacomm.hpp"
#include "sync/adsp.hpp"
#include "sync/batchtune.hpp"
#include "sync/dylu.hpp"
#include "sync/easgd.hpp"
#include "sync/fedbuff.hpp"
#include "sync/local_sgd.hpp"
#include "sync/option_table.hpp"
#include "sync/semi_sync.hpp"
#include "sync/ssp.hpp"
#include "tests/each_model.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

// Everything that draws random numbers or takes time is on.
cluster::ClusterConfig lively_cluster() {
  cluster::ClusterConfig config = small_cluster({0.1, 0.17, 0.45});
  for (auto& group : config.workers) {
    group.count = 2;
    group.device.jitter = 0.3;
    group.link = {.latency_seconds = 0.05,
                  .jitter = 0.5,
                  .up_bytes_per_second = 40'000,
                  .down_bytes_per_second = 80'000};
  }
  config.servers = {.count = 2,
                    .link = {.latency_seconds = 0.01,
                             .jitter = 0.2,
                             .up_bytes_per_second = 200'000,
                             .down_bytes_per_second = 200'000},
                    .apply_bytes_per_second = 1e6};
  const auto options =
      Config::parse("[fedasync]\nlocal_steps = 3\n[fednova]\nlocal_steps = 3", "options.toml");
  config.sync = sync::read_options(options->root());
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(5);
  config.sync.of<sync::AdspOptions>().epoch = Duration::from_seconds(30);
  config.sync.of<sync::SspOptions>().staleness = 2;
  config.sync.of<sync::LocalSgdOptions>().local_steps = 3;
  config.sync.of<sync::AdacommOptions>().local_steps = 3;
  config.sync.of<sync::DyluOptions>().local_steps = 3;
  config.sync.of<sync::BatchTuneAdacommOptions>().local_steps = 3;
  config.sync.of<sync::EasgdOptions>().local_steps = 3;
  config.sync.of<sync::FedBuffOptions>().local_steps = 3;
  config.sync.of<sync::SemiSyncOptions>().epochs = 0.1;
  return config;
}

}  // namespace

namespace {

void repeats_itself(const std::string& model) {
  const auto data = small_blobs();
  const cluster::ClusterConfig config = lively_cluster();
  const Run one = run(config, data, model, 1, 1);
  REQUIRE(one.record.commits > 100);
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    const Run again = run(config, data, model, 1, threads);
    CHECK_MESSAGE(again.log == one.log, "the run logs differ");
    CHECK(to_text(again.record) == to_text(one.record));
  }
}

}  // namespace

const tests::EachModel kEachRepeatsItself("the run log and the record do not depend on the threads",
                                          __FILE__, __LINE__, repeats_itself);

TEST_CASE("a run with overlapped commits does not depend on the threads") {
  const auto data = small_blobs();
  cluster::ClusterConfig config = lively_cluster();
  config.sync.of<sync::AdspOptions>().overlap = true;
  CHECK(run(config, data, "adsp", 1, 1).log == run(config, data, "adsp", 1, 4).log);
}

TEST_CASE("another seed gives another run, even on devices that never vary") {
  const auto data = small_blobs();
  const cluster::ClusterConfig config = small_cluster({0.1, 0.3});
  const Run first = run(config, data, "bsp", 1);
  const Run second = run(config, data, "bsp", 2);
  CHECK(first.log != second.log);
  CHECK(first.record.steps == second.record.steps);  // only what is learned differs
  CHECK(first.record.final_loss != second.record.final_loss);
}

TEST_CASE("without a run log the record is the same") {
  const auto data = small_blobs();
  const cluster::ClusterConfig config = lively_cluster();
  VirtualOptions options;
  options.sync = "ssp";
  const auto record = run_virtual(config, data, options);
  REQUIRE(record.has_value());
  CHECK(to_text(*record) == to_text(run(config, data, "ssp").record));
}
