// The real loop of a worker, with both of its threads, among peers that answer at once.
#include "cluster/worker_node.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "tests/cluster/counting_device.hpp"
#include "tests/cluster/loop_peers.hpp"

namespace rubato::cluster {
namespace {

using worker::NotingRule;
using worker::RuleNotes;
using worker::WorkerCore;
using worker::WorkerWorld;
using worker::WorldSetup;

// Each copy lasts until two more steps were made beside it, and a third one has begun.
class CopyingDevice final : public CountingDevice, public train::OwnMemory {
 public:
  explicit CopyingDevice(std::function<void(int so_far)> stepped)
      : CountingDevice([this, stepped = std::move(stepped)](int so_far) {
          stepped(so_far);
          made_ = so_far;
          made_.notify_all();
        }) {}
  train::OwnMemory* own_memory() override { return this; }
  train::BatchResult step(const train::Batch& batch, float rate) override {
    ++begun_;
    begun_.notify_all();
    return CountingDevice::step(batch, rate);
  }
  void begin_update(const train::Packing&) override { replica_.take_update(leaving_); }
  using CountingDevice::take_update;
  bool take_update(const train::Packing&, Floats& out) override {
    return CountingDevice::take_update(out);
  }
  bool finish_update(Floats& out) override {
    wait_for_steps();
    out = leaving_;
    ++copies;
    return true;
  }
  void stage(std::span<const float> parameters) override {
    staging_from = made_.load();
    wait_for_steps();
    staged_.assign(parameters.begin(), parameters.end());
    ++copies;
  }
  void load_staged() override { replica_.load_under_update(staged_); }
  void finish_steps() override { ++finished; }

  std::atomic<int> copies = 0;
  std::atomic<int> staging_from = std::numeric_limits<int>::max();  // steps before the last stage()
  int finished = 0;

 private:
  void wait_for_steps() {
    const int before = made_;
    for (int now = before; now < before + 2; now = made_) made_.wait(now);
    for (int now = begun_; now < before + 3; now = begun_) begun_.wait(now);
  }

  std::atomic<int> begun_ = 0, made_ = 0;
  Floats leaving_;
  std::vector<float> staged_;
};

// What a run goes by: the steps of a device, or the copies that one made beside them.
int done(const CountingDevice& /*device*/, int so_far) {
  return so_far;
}
int done(const CopyingDevice& device, int so_far) {
  return so_far < 100 ? -1 : device.copies.load();
}

template <class Counting = CountingDevice>
struct Run {
  // Stops after so many.
  Run(int limit, const WorldSetup& setup, std::function<Duration(Instant, int)> step_time = {}) {
    std::stop_source stop;
    const Counting* counting = nullptr;
    const train::Dataset data = one_sample();
    auto owned = std::make_unique<Counting>([&](int so_far) {
      if (done(*counting, so_far) >= limit) stop.request_stop();
    });
    const Counting& device = *owned;
    counting = owned.get();
    train::LocalTrainer trainer(std::move(owned), data, {{0}, Rng(1)}, 1, {});
    rule.every = setup.every;
    WorkerCore core(WorkerWorld::options(setup), std::make_unique<NotingRule>(rule));
    const WorkerNodeOptions options{.scheduler = "scheduler", .step_time = std::move(step_time)};
    const auto ended = run_worker(peers, core, trainer, options, stop.get_token());
    REQUIRE(ended);
    CHECK(*ended == "interrupted");
    weights.resize(kParameters);
    trainer.read(weights);
    made = device.made;
    if constexpr (requires { device.finished; }) finished = device.finished;
    counted = core.progress().steps;
  }

  LoopPeers peers;
  RuleNotes rule;
  std::vector<float> weights;
  int made = 0;               // by the device
  std::uint64_t counted = 0;  // by the core
  int finished = 0;           // steps that were waited for
};

WorldSetup setup(int every, bool overlap) {
  WorldSetup setup;
  setup.parameters = kParameters;
  setup.chunk = kChunk;
  setup.every = every;
  setup.overlap = overlap ? sync::Overlap::Always : sync::Overlap::Never;
  return setup;
}

void check_weights(const auto& run) {
  CHECK(run.weights == std::vector<float>(kParameters, -static_cast<float>(run.made)));
}

TEST_CASE("steps between commits wake nobody") {
  const Run<> run(500, setup(2'000'000'000, false));
  CHECK(run.peers.wakes <= 1);  // at the end
  CHECK(run.peers.commits == 0);
  CHECK(run.made >= 500);
  CHECK(run.counted >= 500);
  check_weights(run);
}

TEST_CASE("commits: the server has every step up to the last one, the worker all of its own") {
  const Run<> run(300, setup(3, false));
  CHECK(run.peers.commits >= 99);
  for (const float w : run.peers.weights) CHECK(w == -3.0f * static_cast<float>(run.peers.commits));
  check_weights(run);
}

TEST_CASE("commits while training goes on") {
  const Run<> run(300, setup(3, true));
  CHECK(run.peers.commits >= 1);
  CHECK(run.peers.weights == std::vector<float>(kParameters, run.peers.weights[0]));
  CHECK(run.peers.weights[0] >= -static_cast<float>(run.made));
  CHECK(run.peers.weights[0] <= -3.0f * static_cast<float>(run.peers.commits));
  check_weights(run);
}

TEST_CASE("a device copies the update and the reply while it trains on") {
  const Run<CopyingDevice> run(40, setup(3, true));  // an update and a reply each
  CHECK(run.peers.commits >= 19);
  CHECK(run.peers.commits <= 22);
  CHECK(run.peers.weights == std::vector<float>(kParameters, run.peers.weights[0]));
  CHECK(run.peers.weights[0] >= -static_cast<float>(run.made));
  CHECK(run.peers.weights[0] <= -3.0f * static_cast<float>(run.peers.commits));
  check_weights(run);
}

TEST_CASE("parameters that were on the device before this worker joined again are not loaded") {
  LoopPeers peers;
  peers.others = 1e6F;  // more than the steps that are made
  std::stop_source stop;
  const CopyingDevice* device = nullptr;
  bool called = false;
  std::vector<float> after;  // the first step that follows
  auto owned = std::make_unique<CopyingDevice>([&](int so_far) {
    if (called && after.empty()) {
      after.resize(kParameters);
      device->read(after);
      stop.request_stop();
    } else if (called) {
      return;
    } else if (so_far - 3 >= device->staging_from) {  // the reply waits for the end of this step
      called = true;
      peers.call_again();
      while (peers.pulls < 2) std::this_thread::yield();
    }
  });
  device = owned.get();
  const train::Dataset data = one_sample();
  train::LocalTrainer trainer(std::move(owned), data, {{0}, Rng(1)}, 1, {});
  RuleNotes rule;
  rule.every = 3;
  WorkerCore core(WorkerWorld::options(setup(3, true)), std::make_unique<NotingRule>(rule));
  const WorkerNodeOptions options{.scheduler = "scheduler", .step_time = {}};
  REQUIRE(run_worker(peers, core, trainer, options, stop.get_token()));
  REQUIRE(after.size() == kParameters);
  CHECK(after[0] > 5e5F);
}

TEST_CASE("steps of a GPU are waited for only behind a commit, to be timed") {
  const Run<CopyingDevice> often(0, setup(3, false));
  CHECK(often.finished == often.made);
  const Run<CopyingDevice> never(0, setup(2'000'000'000, false));
  CHECK(never.made >= 100);
  CHECK(never.finished == 8);
}

TEST_CASE("a step that is stretched is told when its time is over") {
  const Instant began = steady_now();
  const Run<> run(5, setup(2, false), [](Instant, int) { return Duration::from_ms(20); });
  CHECK(steady_now() - began >= Duration::from_ms(80));
  CHECK(run.peers.commits >= 2);
  check_weights(run);
}

}  // namespace
}  // namespace rubato::cluster
