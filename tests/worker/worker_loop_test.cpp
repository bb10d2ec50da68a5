// The real loop of a worker, with both of its threads, among peers that answer at once.
#include "worker/worker_loop.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "tests/worker/worker_world.hpp"
#include "worker/host_replica.hpp"

namespace rubato::worker {
namespace {

constexpr std::size_t kParameters = 5;
constexpr std::uint64_t kChunk = 2;

// A scheduler and one server behind a Transport: W <- W - U for each chunk, and the answer.
class Peers final : public proto::Transport {
 public:
  Result<std::string> listen(const std::string& endpoint) override { return endpoint; }
  Result<proto::PeerId> connect(const std::string& endpoint) override {
    return endpoint == "scheduler" ? 1 : 2;
  }
  Result<std::size_t> send(proto::PeerId, const proto::Message& message) override {
    if (std::holds_alternative<proto::Hello>(message.body)) {
      answer(kSchedulerNode, proto::Welcome{.you = {proto::Role::Worker, 0},
                                            .parameters = kParameters,
                                            .range = {},
                                            .shards = {{{{0, kParameters}, "server"}}}});
      answer(kSchedulerNode, proto::Start{});
    } else if (const auto* pull = std::get_if<proto::Pull>(&message.body)) {
      parameters(pull->sequence, 0, kParameters);
    } else if (const auto* commit = std::get_if<proto::Commit>(&message.body)) {
      const auto update = tests::values_of(message.payload);
      for (std::size_t i = 0; i < update.size(); ++i) weights[commit->offset + i] -= update[i];
      if (commit->offset == 0) ++commits;
      parameters(commit->sequence, commit->offset, commit->count);
    }
    return 1;
  }
  Result<std::optional<proto::Received>> receive(Duration timeout) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(timeout.ns),
                      [this] { return woken_ || !inbox_.empty(); });
    woken_ = false;
    if (inbox_.empty()) return std::optional<proto::Received>();
    proto::Received received = std::move(inbox_.front());
    inbox_.pop_front();
    return std::optional(std::move(received));
  }
  void wake() override {
    ++wakes;
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }

  std::atomic<int> wakes = 0;
  std::uint64_t commits = 0;
  std::vector<float> weights = std::vector<float>(kParameters);

 private:
  void answer(proto::NodeId from, proto::Body body, proto::Payload payload = {}) {
    const std::lock_guard lock(mutex_);
    inbox_.push_back({from.role == proto::Role::Scheduler ? proto::PeerId{1} : proto::PeerId{2},
                      proto::Message{.cluster = kCluster,
                                     .sender = from,
                                     .incarnation = 1,
                                     .body = std::move(body),
                                     .payload = std::move(payload)},
                      1});
  }
  void parameters(Sequence sequence, std::uint64_t offset, std::uint64_t count) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(offset);
    answer(server_node(0),
           proto::Parameters{.sequence = sequence,
                             .offset = offset,
                             .count = count,
                             .total = kParameters,
                             .held = {}},
           tests::payload_of({first, first + static_cast<std::ptrdiff_t>(count)}));
  }

  std::mutex mutex_;  // guards inbox_ and woken_
  std::condition_variable changed_;
  std::deque<proto::Received> inbox_;
  bool woken_ = false;
};

// Every gradient is 1, and so is the rate: W is minus the number of steps, whoever made them.
class CountingDevice final : public Device {
 public:
  CountingDevice(int steps, std::stop_source& done) : steps_(steps), done_(done) {}
  std::string_view name() const override { return "counting"; }
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
    if (++made == steps_) done_.request_stop();
    return {};
  }
  BatchResult gradient(const Batch&, std::span<float>) override { return {}; }
  BatchResult evaluate(const Batch&) override { return {}; }

  int made = 0;

 private:
  int steps_;
  std::stop_source& done_;
  HostReplica replica_{kParameters};
};

struct Run {
  Run(int steps, const WorldSetup& setup, std::function<Duration(Instant, int)> step_time = {}) {
    std::stop_source done;
    Dataset data;
    data.shape = {1, 1, 1};
    data.classes = 1;
    data.labels = {0};
    data.features = std::vector<float>(1);
    auto owned = std::make_unique<CountingDevice>(steps, done);
    const CountingDevice& device = *owned;
    LocalTrainer trainer(std::move(owned), data, {{0}, Rng(1)}, 1, {});
    rule.every = setup.every;
    WorkerCore core(WorkerWorld::options(setup), std::make_unique<NotingRule>(rule));
    const WorkerLoopOptions options{.scheduler = "scheduler", .step_time = std::move(step_time)};
    const auto ended = run_worker(peers, core, trainer, options, done.get_token());
    REQUIRE(ended);
    CHECK(*ended == "interrupted");
    weights.resize(kParameters);
    trainer.read(weights);
    made = device.made;
    counted = core.progress().steps;
  }

  Peers peers;
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
}  // namespace rubato::worker
