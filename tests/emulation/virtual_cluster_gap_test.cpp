// A GPU among small boards: one worker is 500 times as fast as the others.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sync/adsp.hpp"
#include "tests/each_model.hpp"
#include "tests/emulation/virtual_runs.hpp"

using namespace rubato;
using namespace rubato::emulation;

namespace {

cluster::ClusterConfig gpu_and_boards() {
  cluster::ClusterConfig config = small_cluster({0.0004, 0.2, 0.2, 0.2});
  set_latency(config, 0.002);
  config.stop.max_seconds = 12;
  config.sync.of<sync::AdspOptions>().check_period = Duration::from_seconds(3);
  return config;
}

void check_gap(const std::string& sync) {
  const RunRecord record = run(gpu_and_boards(), small_blobs(), sync).record;
  REQUIRE(record.evaluations.size() > 10);
  CHECK(record.seconds == doctest::Approx(12).epsilon(0.05));
  for (const auto& evaluation : record.evaluations) REQUIRE(std::isfinite(evaluation.loss));
  // The fast worker may learn its own samples by heart in the end.
  CHECK(std::ranges::min(record.evaluations, {}, &EvaluationRecord::loss).loss <
        0.7 * record.evaluations.front().loss);
  for (const auto& worker : record.workers) {
    CAPTURE(worker.id);
    CHECK(worker.steps >= 1);
    CHECK(worker.commits >= 1);
  }
  CHECK(record.workers[0].steps >= record.workers[1].steps);
}

const tests::EachModel kGap("a worker 500 times as fast as the others breaks nothing", __FILE__,
                            __LINE__, check_gap);

}  // namespace

TEST_CASE("ADSP's interval of a worker 500 times as fast covers thousands of steps") {
  cluster::ClusterConfig config = gpu_and_boards();
  config.sync.of<sync::AdspOptions>() = {.check_period = Duration::from_seconds(5),
                                         .fixed_rate = 2};
  const RunRecord record = run(config, small_blobs(), "adsp").record;
  const auto& gpu = record.workers[0];
  CHECK(gpu.steps / gpu.commits > 2000);
  CHECK(gpu.wait.seconds() == 0);
  for (const auto& worker : record.workers) {
    CAPTURE(worker.id);
    CHECK(worker.commits + 1 >= gpu.commits);
    CHECK(worker.commits <= gpu.commits + 1);
  }
  CHECK(record.final_loss < 0.5 * record.evaluations.front().loss);
}
