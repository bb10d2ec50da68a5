// A step allocates nothing once it is warm, on the cpu device and on the CUDA device: counted in
// operator new. oneDNN allocates inside its own calls (a list of the arguments): the caller's
// address tells these apart. The simulated GPU allocates too: its functions are left out.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "tests/allocations.hpp"
#include "tests/train/models.hpp"
#include "train/local_trainer.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

bool is_one_dnns(const void* caller) {
  Dl_info where{};
  return dladdr(caller, &where) != 0 && where.dli_fname && std::strstr(where.dli_fname, "libdnnl");
}

// Counts what its own functions allocate.
class QuietGpu final : public cuda::HostGpu {
 public:
  std::size_t own = 0;

  void copy(cuda::Stream stream, void* to, const void* from, std::size_t bytes) override {
    quietly([&] { HostGpu::copy(stream, to, from, bytes); });
  }
  void clear(cuda::Stream stream, void* memory, std::size_t bytes) override {
    quietly([&] { HostGpu::clear(stream, memory, bytes); });
  }
  void launch(cuda::Stream stream, std::size_t count, const cuda::Kernel& kernel) override {
    quietly([&] { HostGpu::launch(stream, count, kernel); });
  }
  void launch(cuda::Graph& graph) override {
    quietly([&] { HostGpu::launch(graph); });
  }
  void record(cuda::Event& event, cuda::Stream stream) override {
    quietly([&] { HostGpu::record(event, stream); });
  }
  void wait(cuda::Stream stream, const cuda::Event& event) override {
    quietly([&] { HostGpu::wait(stream, event); });
  }
  void wait(const cuda::Event& event) override {
    quietly([&] { HostGpu::wait(event); });
  }

 private:
  template <class F>
  void quietly(F f) {
    const std::size_t before = tests::allocations;
    f();
    own += tests::allocations - before;
  }
};

}  // namespace

TEST_CASE("a warm training step allocates nothing of ours, on any model") {
  for (const std::string kind : {"mlp", "svm", "lenet", "cnn", "cnn1d", "lstm"}) {
    CAPTURE(kind);
    LocalOptimizerOptions optimizer;
    if (kind == "mlp") optimizer = {.kind = LocalOptimizerKind::AdamW, .clip_norm = 1};
    Dataset data;
    data.shape = {1, 16, 16};
    data.classes = 3;
    data.labels = {0, 1, 2, 0, 1, 2, 0, 1};
    data.features = std::vector<float>(8 * 256, 0.5f);
    const ModelSpec spec = make_model({kind, {}}, data.shape, data.classes).value();
    std::vector<std::uint32_t> all(data.size());
    std::iota(all.begin(), all.end(), 0u);
    auto device = make_device("cpu", {.measure = true}).value();  // looks up what was measured
    REQUIRE(device->build(spec, 4));
    LocalTrainer trainer(std::move(device), data, BatchSampler(all, Rng(1)), 4, {}, optimizer);
    trainer.load(initial_parameters(spec, 1));
    Floats update(trainer.parameter_count());
    trainer.step();
    tests::is_foreign = is_one_dnns;
    const std::size_t ours = tests::allocations, one_dnns = tests::foreign_allocations;
    for (int s = 0; s < 5; ++s) trainer.step();  // more than one epoch
    trainer.take_update(update);
    trainer.load_under_update(update);
    CHECK(tests::allocations == ours);
    const std::size_t one_dnn_made = tests::foreign_allocations - one_dnns;
    tests::is_foreign = nullptr;
    if (kind == "mlp" || kind == "svm") CHECK(one_dnn_made == 0);
    MESSAGE(kind << ": oneDNN's own allocations in 5 steps: " << one_dnn_made);
  }
}

TEST_CASE("a warm step of the CUDA device allocates nothing, with data on the host or on the GPU") {
  Dataset data;
  data.shape = {1, 16, 16};
  data.classes = 3;
  data.labels = {0, 1, 2, 0, 1, 2, 0, 1};
  data.features = std::vector<float>(8 * 256, 0.5f);
  const ModelSpec spec = make_model({"lenet", {}}, data.shape, data.classes).value();
  auto made = std::make_unique<QuietGpu>();
  QuietGpu& gpu = *made;
  CudaDevice device(std::move(made));
  REQUIRE(device.build(spec, 4));
  device.set_optimizer({.kind = LocalOptimizerKind::AdamW, .clip_norm = 1});
  REQUIRE(device.keep(data));
  device.load(initial_parameters(spec, 1));
  const OwnedBatch batch(spec, 4, 1);
  const std::vector<std::uint32_t> samples = {3, 1, 4, 1};
  const auto step_both = [&] {
    device.step(batch.view(), 0.01f);
    device.step({.inputs = {}, .labels = {}, .size = 4, .samples = samples}, 0.01f);
  };
  Floats update(device.parameter_count());
  for (int s = 0; s < 10; ++s) {
    step_both();
    device.step(batch.view(), 0.01f);  // both kinds in each slot
  }
  const std::size_t before = tests::allocations - gpu.own;
  for (int s = 0; s < 10; ++s) step_both();
  device.take_update(update);
  device.load_under_update(update);
  CHECK(tests::allocations - gpu.own == before);
}

TEST_CASE("the allocations are counted at all") {
  const std::size_t before = tests::allocations;
  CHECK(std::make_unique<int>(1) != nullptr);
  CHECK(tests::allocations > before);
}
