// The real loop of a worker whose steps begin while the reply to their commit arrives: a layer
// waits for its own parameters, and nothing hangs or is lost where they never come.
#include <doctest/doctest.h>

#include <thread>

#include "tests/worker/loop_peers.hpp"
#include "worker/host_replica.hpp"
#include "worker/worker_loop.hpp"

namespace rubato::worker {
namespace {

constexpr std::size_t kParameters = LoopPeers::kParameters;

// Two layers of 2 and 3 parameters. Every gradient is 1, and so is the rate: W is minus the number
// of steps, whoever made them.
class LayeredDevice final : public Device {
 public:
  // Called between the two layers of an early step, and after every step.
  struct Hooks {
    std::function<void()> between;
    std::function<void(int made)> stepped;
  };
  explicit LayeredDevice(Hooks hooks) : hooks_(std::move(hooks)) {}
  std::string_view name() const override { return "layered"; }
  Result<void> build(const ModelSpec&, int) override { return {}; }
  std::size_t parameter_count() const override { return kParameters; }
  int batch_max() const override { return 1; }
  void load(std::span<const float> parameters) override { replica_.load(parameters); }
  void load_under_update(std::span<const float> parameters) override {
    replica_.load_under_update(parameters);
  }
  void read(std::span<float> out) const override { replica_.read(out); }
  bool take_update(std::vector<float>& out) override { return replica_.take_update(out); }
  void give(std::vector<float>& buffer) override { replica_.give(buffer); }
  BatchResult step(const Batch&, float) override {
    replica_.descend(std::vector<float>(kParameters, 1.0f), 1.0f);
    hooks_.stepped(++made);
    return {};
  }
  std::optional<BatchResult> step_early(const Batch& batch, float rate,
                                        const Arriving& arriving) override {
    ++early;
    if (!arriving(0, replica_.part(0, 2))) return std::nullopt;
    if (hooks_.between) hooks_.between();
    if (!arriving(2, replica_.part(2, 3))) return std::nullopt;
    return step(batch, rate);
  }
  BatchResult gradient(const Batch&, std::span<float>) override { return {}; }
  BatchResult evaluate(const Batch&) override { return {}; }

  int made = 0;
  int early = 0;  // begun

 private:
  Hooks hooks_;
  HostReplica replica_{kParameters};
};

struct EarlyRun {
  // A commit after every step. Answers from the second layer on are kept until `between`.
  EarlyRun(int steps, const std::function<void(EarlyRun&)>& between,
           std::function<Duration(Instant, int)> step_time = {},
           Duration server_timeout = Duration::from_seconds(100)) {
    WorldSetup setup;
    setup.parameters = kParameters;
    setup.chunk = LoopPeers::kChunk;
    setup.early_forward = {{2, 0.2}, {5, 0.1}};
    peers.keep_from = 2;
    auto options = WorkerWorld::options(setup);
    options.probe_after = server_timeout * 0.25;
    options.server_timeout = server_timeout;
    data.shape = {1, 1, 1};
    data.classes = 1;
    data.labels = {0};
    data.features = std::vector<float>(1);
    auto owned = std::make_unique<LayeredDevice>(
        LayeredDevice::Hooks{.between = [this, between] { between(*this); },
                             .stepped =
                                 [this, steps](int made) {
                                   if (made == steps) done.request_stop();
                                 }});
    device = owned.get();
    trainer.emplace(std::move(owned), data, BatchSampler({0}, Rng(1)), 1, LearningRate{});
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
  Dataset data;
  std::stop_source done;
  LayeredDevice* device = nullptr;
  std::optional<LocalTrainer> trainer;
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
  std::vector<float> update;
  run.trainer->load_under_update(std::vector<float>(kParameters, 7.0f));
  run.trainer->read(run.weights);
  CHECK(run.weights == std::vector<float>(kParameters, 7.0f));
  run.trainer->take_update(update);
  CHECK(update == std::vector<float>(kParameters, 0.0f));
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
}  // namespace rubato::worker
