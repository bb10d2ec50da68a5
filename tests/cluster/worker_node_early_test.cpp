// The real loop of a worker whose steps begin while the reply to their commit arrives: a layer
// waits for its own parameters, and nothing hangs or is lost where they never come.
#include <doctest/doctest.h>

#include <thread>

#include "cluster/worker_node.hpp"
#include "tests/cluster/counting_device.hpp"
#include "tests/cluster/loop_peers.hpp"

namespace rubato::cluster {
namespace {

using worker::NotingRule;
using worker::RuleNotes;
using worker::WorkerCore;
using worker::WorkerWorld;
using worker::WorldSetup;

// Two layers of 2 and 3 parameters.
class LayeredDevice final : public CountingDevice {
 public:
  // `between`: called between the two layers of an early step.
  LayeredDevice(std::function<void(int made)> stepped, std::function<void()> between)
      : CountingDevice(std::move(stepped)), between_(std::move(between)) {}
  std::optional<train::BatchResult> step_early(const train::Batch& batch, float rate,
                                               const train::Arriving& arriving) override {
    ++early;
    if (!arriving(0, replica_.part(0, 2))) return std::nullopt;
    between_();
    if (!arriving(2, replica_.part(2, 3))) return std::nullopt;
    return step(batch, rate);
  }

  int early = 0;  // begun

 private:
  std::function<void()> between_;
};

struct EarlyRun {
  // A commit after every step. Answers from the second layer on are kept until `between`.
  EarlyRun(int steps, const std::function<void(EarlyRun&)>& between,
           std::function<Duration(Instant, int)> step_time = {},
           Duration server_timeout = Duration::from_seconds(100)) {
    WorldSetup setup;
    setup.parameters = kParameters;
    setup.chunk = kChunk;
    setup.early_forward = {{2, 0.2}, {5, 0.1}};
    peers.keep_from = 2;
    auto options = WorkerWorld::options(setup);
    options.probe_after = server_timeout * 0.25;
    options.server_timeout = server_timeout;
    auto owned = std::make_unique<LayeredDevice>(
        [this, steps](int made) {
          if (made == steps) done.request_stop();
        },
        [this, between] { between(*this); });
    device = owned.get();
    trainer.emplace(std::move(owned), data, train::BatchSampler({0}, Rng(1)), 1,
                    train::LearningRate{});
    WorkerCore core(options, std::make_unique<NotingRule>(rule));
    ended =
        run_worker(peers, core, *trainer,
                   {.scheduler = "scheduler", .step_time = std::move(step_time)}, done.get_token());
    progress = core.progress();
    weights.resize(kParameters);
    trainer->read(weights);
  }
  void check_weights() const {
    CHECK(weights == std::vector<float>(kParameters, -static_cast<float>(device->made)));
  }

  LoopPeers peers;
  RuleNotes rule;
  train::Dataset data = one_sample();
  std::stop_source done;
  LayeredDevice* device = nullptr;
  std::optional<train::LocalTrainer> trainer;
  Result<std::string> ended;
  proto::Progress progress;
  std::vector<float> weights;
};

TEST_CASE("early: the first layer computes while the second one's parameters are kept back") {
  EarlyRun run(50, [](EarlyRun& r) { r.peers.release(); });
  REQUIRE(run.ended);
  CHECK(*run.ended == "interrupted");
  CHECK(run.device->early >= 49);  // all but the first
  CHECK(run.progress.steps >= 49);
  run.check_weights();
}

TEST_CASE("early: a server that dies in the middle of a reply ends the run, and the step with it") {
  EarlyRun run(
      50, [](EarlyRun&) {}, {}, Duration::from_ms(200));
  REQUIRE_FALSE(run.ended);
  CHECK(run.ended.error().code == ErrorCode::Timeout);
  CHECK(run.ended.error().message.find("server 0 at server: no answer to commit 2") !=
        std::string::npos);
  CHECK(run.device->made == 1);
  CHECK(run.device->early == 1);
  CHECK(run.trainer->steps() == 1);
  // The next whole reply puts all of it right.
  Floats update;
  run.trainer->load_under_update(std::vector<float>(kParameters, 7.0f));
  run.trainer->read(run.weights);
  CHECK(run.weights == std::vector<float>(kParameters, 7.0f));
  run.trainer->take_update(update);
  CHECK(update == Floats(kParameters, 0.0f));
}

TEST_CASE("early: a reply whose last chunk is corrupt ends the run, and no step is made of it") {
  EarlyRun run(50, [](EarlyRun& r) {
    r.peers.release();
    r.peers.corrupt_last = true;  // of the next commit
  });
  REQUIRE_FALSE(run.ended);
  CHECK(run.ended.error().code == ErrorCode::Corrupt);
  CHECK(run.device->early == 2);
  CHECK(run.device->made == 2);
}

TEST_CASE("early: a stop ends a layer's wait at once") {
  EarlyRun run(50, [](EarlyRun& r) { r.done.request_stop(); });
  REQUIRE(run.ended);
  CHECK(*run.ended == "interrupted");
  CHECK(run.device->made == 1);
}

TEST_CASE("early: a membership that is lost in the middle gives the step up, and nothing is lost") {
  int refused = 0;
  EarlyRun run(20, [&refused](EarlyRun& r) {
    if (++refused % 4 == 1) {
      r.peers.refuse();
    } else {
      r.peers.release();
    }
  });
  REQUIRE(run.ended);
  CHECK(*run.ended == "interrupted");
  CHECK(refused >= 8);
  CHECK(run.device->made >= 20);
  CHECK(run.device->early > run.device->made - refused);
  CHECK(run.peers.weights == std::vector<float>(kParameters, run.peers.weights[0]));
  CHECK(run.peers.weights[0] >= -static_cast<float>(run.device->made));
  CHECK(run.peers.weights[0] <= -static_cast<float>(run.device->made - 1));
  run.check_weights();
}

// The second layer's parameters come after 30 ms at the earliest; it and the way back, 0.8 of the
// step, follow.
TEST_CASE("early: on a device that is stood for, a step takes its time and its layers' waits") {
  EarlyRun run(
      6,
      [](EarlyRun& r) {
        const Instant until = steady_now() + Duration::from_ms(30);
        while (steady_now() < until) std::this_thread::yield();
        r.peers.release();
      },
      [](Instant, int) { return Duration::from_ms(20); });
  REQUIRE(run.ended);
  REQUIRE(run.progress.steps >= 5);  // the first of them not early
  CHECK(run.progress.compute >= Duration::from_ms(5 * 20));
  CHECK(run.progress.compute + run.progress.communicate >= Duration::from_ms(20 + 4 * (30 + 16)));
  run.check_weights();
}

}  // namespace
}  // namespace rubato::cluster
