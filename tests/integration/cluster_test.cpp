// A whole cluster over real sockets, in one process: every sync model trains, and BSP ends where
// the virtual cluster ends. A worker on a GPU trains among workers on CPUs, too; that GPU is one of
// plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "cluster/node_loop.hpp"
#include "emulation/virtual_cluster.hpp"
#include "proto/zmq_transport.hpp"
#include "sync/adsp.hpp"
#include "sync/factory.hpp"
#include "tests/each_model.hpp"
#include "tests/integration/quick_cluster.hpp"
#include "tests/integration/thread_cluster.hpp"
#include "tests/train/host_gpu.hpp"
#include "train/cuda/cuda_device.hpp"

namespace rubato::integration {
namespace {

using DeviceOf = decltype(ThreadClusterOptions::device);

// What the loop of a worker asks of a GPU beside steps.
struct Beside {
  std::atomic<int> taken = 0;   // updates
  std::atomic<int> packed = 0;  // of them
  std::atomic<int> loaded = 0;  // staged parameters
  std::atomic<int> stepped_early = 0;
};

class WatchedGpu final : public train::CudaDevice {
 public:
  explicit WatchedGpu(Beside& seen)
      : CudaDevice(std::make_unique<train::cuda::HostGpu>(train::cuda::HostGpuOptions{.seed = 5})),
        seen_(seen) {}
  void begin_update(const train::Packing& packing) override {
    ++seen_.taken;
    if (!packing.runs.empty()) ++seen_.packed;
    CudaDevice::begin_update(packing);
  }
  void load_staged() override {
    ++seen_.loaded;
    CudaDevice::load_staged();
  }
  std::optional<train::BatchResult> step_early(const train::Batch& batch, float rate,
                                               const train::Arriving& arriving) override {
    ++seen_.stepped_early;
    return CudaDevice::step_early(batch, rate, arriving);
  }

 private:
  Beside& seen_;
};

// The first worker trains on a GPU, the other two on CPUs.
DeviceOf first_on_gpu(Beside& seen) {
  return [&seen](std::uint32_t index) {
    return index == 0 ? std::make_unique<WatchedGpu>(seen) : nullptr;
  };
}

RunRecord run_to_end(ThreadCluster& cluster) {
  const auto record = cluster.wait_for_end();
  REQUIRE(record);
  return *record;
}

// Good enough, and by the work of all. A fast worker alone may be as good before the others begin.
bool all_have_trained(const RunRecord& record) {
  const auto committed = [](const WorkerRecord& worker) { return worker.commits > 0; };
  return record.workers.size() == 3 && std::ranges::all_of(record.workers, committed) &&
         !record.evaluations.empty() && record.evaluations.back().loss < 0.3;
}

void trains_over_tcp(const std::string& model) {
  ThreadCluster cluster(parse(QuickCluster{.servers = 2, .stop = kEndless}.text()),
                        {.sync = model});
  cluster.start_workers();
  REQUIRE(cluster.wait_until(all_have_trained));
  cluster.stop();
  const RunRecord record = run_to_end(cluster);

  CHECK(record.sync == model);
  CHECK(record.final_accuracy > 0.9);
  CHECK(record.bytes_up > 0);
  CHECK(record.bytes_down > 0);
  REQUIRE(record.workers.size() == 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(record.workers[i].fate == "member");
    const auto& end = cluster.worker_end(i);
    REQUIRE(end);
    CHECK(*end == record.stop_reason);
  }
  // What a worker saw answered was applied, or dropped where the model says so; one commit each
  // may have been under way at the end.
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    const auto& stats = cluster.server_stats(shard);
    const auto taken = stats.commits_applied + stats.commits_dropped;
    CHECK(taken >= record.commits);
    CHECK(taken <= record.commits + 3);
    CHECK(stats.commits_refused == 0);
    CHECK(stats.messages_refused == 0);
  }
}

const tests::EachModel kEachTrainsOverTcp("a model trains over TCP, on two shards", __FILE__,
                                          __LINE__, trains_over_tcp);

TEST_CASE("ADSP waits for nobody and BSP keeps its workers in step") {
  const auto run = [](const char* sync) {
    ThreadCluster cluster(parse(QuickCluster{.stop = kEndless}.text()), {.sync = sync});
    cluster.start_workers();
    REQUIRE(cluster.wait_until([](const RunRecord& record) { return record.commits >= 60; }));
    cluster.stop();
    return run_to_end(cluster);
  };
  const RunRecord adsp = run("adsp");
  CHECK(adsp.wait_share == 0);
  for (const auto& worker : adsp.workers) CHECK(worker.wait.seconds() == 0);

  const RunRecord bsp = run("bsp");
  CHECK(bsp.wait_share > 0.1);
  for (const auto& worker : bsp.workers) {
    CHECK(worker.commits + 1 >= bsp.workers[0].commits);
    CHECK(worker.commits <= bsp.workers[0].commits + 1);
  }
}

// The learning rate fades out within 100 rounds, so where training ends does not depend on when it
// is stopped: the last loss of both worlds is that of the same parameters, whether steps begin
// while replies arrive over TCP, or not.
void check_bsp_over_tcp(bool early_forward, const DeviceOf& device = {}) {
  constexpr std::uint64_t kFadedSteps = std::uint64_t{3} * 150;
  cluster::ClusterConfig config = parse(QuickCluster{.servers = 2, .stop = kEndless}.text());
  config.training.decay = 0.5;
  config.training.decay_steps = 4;
  config.chunk_bytes = 256;  // several chunks a shard

  cluster::ClusterConfig virtual_config = config;
  virtual_config.stop.max_steps = 2000;
  const auto data = train::load_dataset(config.dataset, config.seed);
  REQUIRE(data);
  const auto on_virtual_time = [&](std::uint64_t seed) {
    const auto record = emulation::run_virtual(virtual_config, *data,
                                               {.sync = "bsp",
                                                .seed = seed,
                                                .threads = 1,
                                                .log = {},
                                                .progress = {},
                                                .saver = {},
                                                .stop = {}});
    REQUIRE(record);
    REQUIRE(record->evaluations.back().steps > kFadedSteps);
    return *record;
  };
  const RunRecord expected = on_virtual_time(config.seed);

  config.training.early_forward = early_forward;
  ThreadCluster cluster(config, {.sync = "bsp", .device = device});
  cluster.start_workers();
  // Evaluated at least once more after every worker has seen the rate fade.
  REQUIRE(cluster.wait_until([](const RunRecord& record) {
    return !record.evaluations.empty() && record.evaluations.back().steps > kFadedSteps;
  }));
  cluster.stop();
  const RunRecord real = run_to_end(cluster);

  CHECK(real.final_loss == doctest::Approx(expected.final_loss).epsilon(1e-5));
  CHECK(real.final_accuracy == expected.final_accuracy);
  CHECK(std::abs(on_virtual_time(config.seed + 1).final_loss - expected.final_loss) >
        1e-3 * expected.final_loss);
}

TEST_CASE("BSP ends at the same loss over TCP and on virtual time") {
  check_bsp_over_tcp(false);
}

TEST_CASE("BSP ends at the same loss with steps that begin while replies arrive") {
  check_bsp_over_tcp(true);
}

TEST_CASE("BSP of a GPU and two CPUs ends at the loss of CPUs alone") {
  Beside seen;
  check_bsp_over_tcp(false, first_on_gpu(seen));
  CHECK(seen.taken == 0);  // no step is made while a commit is in flight
  CHECK(seen.stepped_early == 0);
}

TEST_CASE("BSP of a GPU and two CPUs ends at the loss of CPUs alone, with early steps") {
  Beside seen;
  check_bsp_over_tcp(true, first_on_gpu(seen));
  CHECK(seen.stepped_early > 0);
}

// `beside`: its commits leave the GPU, and the replies come, while it trains.
void trains_on_gpu_and_cpus(const QuickCluster& file, const std::string& model, bool beside,
                            const std::vector<std::string>& freeze = {}) {
  cluster::ClusterConfig config = parse(file.text());
  config.model.freeze = freeze;
  if (model == "adsp") config.sync.of<sync::AdspOptions>().overlap = beside;
  Beside seen;
  ThreadCluster cluster(config, {.sync = model, .device = first_on_gpu(seen)});
  cluster.start_workers();
  REQUIRE(cluster.wait_until([&](const RunRecord& record) {
    return all_have_trained(record) && (!beside || seen.loaded >= 10);
  }));
  cluster.stop();
  const RunRecord record = run_to_end(cluster);
  CHECK(record.final_accuracy > 0.9);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(record.workers[i].fate == "member");
    const auto& end = cluster.worker_end(i);
    REQUIRE_MESSAGE(end, (end ? "" : end.error().message));
  }
  CHECK(cluster.server_stats(0).commits_refused == 0);
  if (beside) {
    CHECK(seen.packed == (file.wire.empty() ? 0 : seen.taken.load()));
    CHECK(seen.taken >= seen.loaded);
    CHECK(seen.taken <= seen.loaded + 1);  // one may have been in flight at the end
  } else {
    CHECK(seen.taken == 0);
    CHECK(seen.loaded == 0);
  }
}

TEST_CASE("a GPU and two CPUs train under ADSP, with steps while commits are in flight or not") {
  trains_on_gpu_and_cpus({.stop = kEndless}, "adsp", true);
  trains_on_gpu_and_cpus({.stop = kEndless}, "adsp", false);
}

TEST_CASE("a GPU that packs its commits and two CPUs train under ADSP") {
  trains_on_gpu_and_cpus({.stop = kEndless, .wire = "up = \"int8\""}, "adsp", true);
  trains_on_gpu_and_cpus({.stop = kEndless, .wire = "up = \"top-k\"\nkeep = 0.2"}, "adsp", true,
                         {"dense1.bias"});
}

TEST_CASE("a GPU and two CPUs train with a layer frozen") {
  trains_on_gpu_and_cpus({.stop = kEndless, .hidden = "64"}, "adsp", true, {"dense1.*"});
}

TEST_CASE("a GPU and two CPUs train under Tempo, which waits for no slow commit") {
  // A step takes less time than a round trip.
  trains_on_gpu_and_cpus({.step_seconds = 0.0002, .stop = kEndless}, "tempo", true);
}

TEST_CASE("a GPU and two CPUs train under EASGD, which waits for its replies") {
  trains_on_gpu_and_cpus({.stop = kEndless}, "easgd", false);
}

TEST_CASE("an interrupted worker leaves and BSP goes on over those that remain") {
  ThreadCluster cluster(parse(QuickCluster{.stop = kEndless}.text()), {.sync = "bsp"});
  cluster.start_workers();
  REQUIRE(cluster.wait_until([](const RunRecord& record) { return record.steps >= 30; }));
  cluster.interrupt_worker(1);
  const auto& end = cluster.worker_end(1);
  REQUIRE(end);
  CHECK(*end == "interrupted");
  const std::uint64_t before = cluster.steps();
  REQUIRE(cluster.wait_until([&](const RunRecord& record) { return record.steps >= before + 30; }));
  cluster.stop();
  const RunRecord record = run_to_end(cluster);
  std::size_t left = 0;
  for (const auto& worker : record.workers) {
    CHECK(worker.fate == (worker.id == "fast-1" ? "left" : "member"));
    left += worker.fate == "left" ? 1 : 0;
  }
  CHECK(left == 1);
}

TEST_CASE("a server that reaches no scheduler gives up in one line") {
  proto::ZmqTransport transport;
  const auto scheduler = transport.connect("tcp://127.0.0.1:1");
  REQUIRE(scheduler);
  server::ServerOptions options;
  options.timing = {.hello_every = Duration::from_ms(20),
                    .give_up_after = Duration::from_ms(100),
                    .heartbeat_every = Duration::from_ms(20)};
  server::ServerCore core(
      options, [](ElementRange range) { return std::vector<float>(range.count()); },
      sync::make_gate("bsp", {}), *scheduler);
  core.on_start(steady_now());
  cluster::NodeLoop loop(transport, core);
  CHECK_FALSE(loop.run({}));
  REQUIRE(core.failure());
  CHECK(core.failure()->code == ErrorCode::Timeout);
  CHECK(core.failure()->message.find("no answer to Hello") != std::string::npos);
  CHECK(core.failure()->message.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace rubato::integration
