// The real loop of a worker, with both of its threads, among peers that answer at once.
#include "cluster/worker_node.hpp"

#include <doctest/doctest.h>

#include "tests/cluster/counting_device.hpp"
#include "tests/cluster/loop_peers.hpp"

namespace rubato::cluster {
namespace {

using worker::NotingRule;
using worker::RuleNotes;
using worker::WorkerCore;
using worker::WorkerWorld;
using worker::WorldSetup;

struct Run {
  Run(int steps, const WorldSetup& setup, std::function<Duration(Instant, int)> step_time = {}) {
    std::stop_source done;
    const train::Dataset data = one_sample();
    auto owned = std::make_unique<CountingDevice>([&done, steps](int so_far) {
      if (so_far == steps) done.request_stop();
    });
    const CountingDevice& device = *owned;
    train::LocalTrainer trainer(std::move(owned), data, {{0}, Rng(1)}, 1, {});
    rule.every = setup.every;
    WorkerCore core(WorkerWorld::options(setup), std::make_unique<NotingRule>(rule));
    const WorkerNodeOptions options{.scheduler = "scheduler", .step_time = std::move(step_time)};
    const auto ended = run_worker(peers, core, trainer, options, done.get_token());
    REQUIRE(ended);
    CHECK(*ended == "interrupted");
    weights.resize(kParameters);
    trainer.read(weights);
    made = device.made;
    counted = core.progress().steps;
  }

  LoopPeers peers;
  RuleNotes rule;
  std::vector<float> weights;
  int made = 0;               // by the device
  std::uint64_t counted = 0;  // by the core
};

WorldSetup setup(int every, bool overlap) {
  WorldSetup setup;
  setup.parameters = kParameters;
  setup.chunk = kChunk;
  setup.every = every;
  setup.overlap = overlap ? sync::Overlap::Always : sync::Overlap::Never;
  return setup;
}

void check_weights(const Run& run) {
  CHECK(run.weights == std::vector<float>(kParameters, -static_cast<float>(run.made)));
}

TEST_CASE("steps between commits wake nobody") {
  const Run run(500, setup(2'000'000'000, false));
  CHECK(run.peers.wakes <= 1);  // at the end
  CHECK(run.peers.commits == 0);
  CHECK(run.made >= 500);
  CHECK(run.counted >= 500);
  check_weights(run);
}

TEST_CASE("commits: the server has every step up to the last one, the worker all of its own") {
  const Run run(300, setup(3, false));
  CHECK(run.peers.commits >= 99);
  for (const float w : run.peers.weights) CHECK(w == -3.0f * static_cast<float>(run.peers.commits));
  check_weights(run);
}

TEST_CASE("commits while training goes on") {
  const Run run(300, setup(3, true));
  CHECK(run.peers.commits >= 1);
  CHECK(run.peers.weights == std::vector<float>(kParameters, run.peers.weights[0]));
  CHECK(run.peers.weights[0] >= -static_cast<float>(run.made));
  CHECK(run.peers.weights[0] <= -3.0f * static_cast<float>(run.peers.commits));
  check_weights(run);
}

TEST_CASE("a step that is stretched is told when its time is over") {
  const Instant began = steady_now();
  const Run run(5, setup(2, false), [](Instant, int) { return Duration::from_ms(20); });
  CHECK(steady_now() - began >= Duration::from_ms(80));
  CHECK(run.peers.commits >= 2);
  check_weights(run);
}

}  // namespace
}  // namespace rubato::cluster
