// A whole worker on a GPU that packs its updates sends what it sends where the host compresses
// them: the real loop, among peers that answer at once. The GPU is one of plain loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "cluster/worker_node.hpp"
#include "tests/cluster/loop_peers.hpp"
#include "tests/train/host_gpu.hpp"
#include "tests/train/models.hpp"
#include "train/cuda/cuda_device.hpp"

namespace rubato::cluster {
namespace {

using proto::PayloadCodec;
using worker::NotingRule;
using worker::RuleNotes;
using worker::WorkerCore;
using worker::WorkerWorld;
using worker::WorldSetup;

constexpr int kBatch = 4;
constexpr int kStepsMax = 120;
constexpr std::size_t kCommits = 20;  // that are compared; a run makes more

// Counts what it packs, and asks the run to end.
class CountedGpu final : public train::CudaDevice {
 public:
  CountedGpu(std::stop_source& stop, int& packed)
      : CudaDevice(std::make_unique<train::cuda::HostGpu>(train::cuda::HostGpuOptions{.seed = 7})),
        stop_(stop),
        packed_(packed) {}
  bool take_update(const train::Packing& packing, Floats& out) override {
    if (!packing.runs.empty()) ++packed_;
    return CudaDevice::take_update(packing, out);
  }
  train::BatchResult step(const train::Batch& batch, float rate) override {
    if (++made_ >= kStepsMax) stop_.request_stop();
    return CudaDevice::step(batch, rate);
  }

 private:
  std::stop_source& stop_;
  int& packed_;
  int made_ = 0;
};

struct GpuRun {
  explicit GpuRun(const WorldSetup& setup, const train::ModelSpec& spec, const train::Dataset& data)
      : peers(setup.parameters) {
    std::stop_source stop;
    auto device = std::make_unique<CountedGpu>(stop, packed);
    REQUIRE(device->build(spec, kBatch));
    peers.weights = train::initial_parameters(spec, 1);
    std::vector<std::uint32_t> all(data.size());
    std::iota(all.begin(), all.end(), 0U);
    train::LocalTrainer trainer(std::move(device), data, {std::move(all), Rng(1)}, kBatch,
                                {.initial = 0.05});
    RuleNotes rule{.every = setup.every, .heard = {}};
    WorkerCore core(WorkerWorld::options(setup), std::make_unique<NotingRule>(rule));
    const auto ended = run_worker(peers, core, trainer, {.scheduler = "scheduler", .step_time = {}},
                                  stop.get_token());
    REQUIRE(ended);
  }

  LoopPeers peers;
  int packed = 0;  // updates
};

train::Dataset blobs(const train::ModelSpec& spec) {
  Rng rng(3);
  train::Dataset data;
  data.shape = spec.input;
  data.classes = spec.classes;
  std::vector<float> values(40 * static_cast<std::size_t>(spec.input.count()));
  for (float& value : values) value = static_cast<float>(rng.normal());
  data.features = std::move(values);
  for (int i = 0; i < 40; ++i) data.labels.push_back(i % spec.classes);
  return data;
}

TEST_CASE("a worker whose GPU packs sends the bytes of one whose host compresses") {
  const train::ModelSpec spec = train::make_model({"mlp", {30}}, {12, 1, 1}, 4).value();
  const train::Dataset data = blobs(spec);
  const proto::Compression forms[] = {{PayloadCodec::F16},
                                      {PayloadCodec::Bf16},
                                      {PayloadCodec::Int8},
                                      {PayloadCodec::TopK, 0.05},
                                      {PayloadCodec::F32}};
  for (const proto::Compression& form : forms) {
    CAPTURE(proto::codec_name(form.codec));
    WorldSetup setup{.parameters = train::parameter_count(spec), .chunk = 150, .every = 3};
    setup.up = form;
    const GpuRun on_gpu(setup, spec, data);
    setup.residual = std::make_shared<worker::Residual>(setup.parameters);  // the host's
    const GpuRun on_host(setup, spec, data);
    CHECK((on_gpu.packed > 0) == (form.codec != PayloadCodec::F32));
    CHECK(on_host.packed == 0);
    const std::size_t chunks = (setup.parameters + setup.chunk - 1) / setup.chunk;
    REQUIRE(on_gpu.peers.heard.size() >= kCommits * chunks);
    REQUIRE(on_host.peers.heard.size() >= kCommits * chunks);
    for (std::size_t i = 0; i < kCommits * chunks; ++i) {
      const proto::Message& a = on_gpu.peers.heard[i];
      const proto::Message& b = on_host.peers.heard[i];
      const auto& head_a = std::get<proto::Commit>(a.body);
      const auto& head_b = std::get<proto::Commit>(b.body);
      CHECK(head_a.offset == head_b.offset);
      CHECK(head_a.codec == head_b.codec);
      CHECK(head_a.steps == 3);
      REQUIRE(std::ranges::equal(a.payload.bytes(), b.payload.bytes()));
    }
  }
}

}  // namespace
}  // namespace rubato::cluster
