// bench/batches.cpp - what bringing the samples of a batch costs a training step: the whole step of
// a LocalTrainer, with batches drawn from 60,000 images of 28 x 28, beside the device's step alone,
// and gather() of a batch that is in the first cache. In turns; the shortest mean of each counts.
// Argument: turns (default 40).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <vector>

#include "base/memory.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "train/local_trainer.hpp"

namespace {

using namespace rubato;
using namespace rubato::train;

constexpr int kBatch = 32;

Dataset images() {
  Dataset data;
  data.shape = {1, 28, 28};
  data.classes = 10;
  data.pixel_scales = {{}};
  data.labels.resize(60'000);
  std::vector<std::uint8_t> pixels(data.labels.size() * 784);
  Rng rng(1);
  for (auto& label : data.labels) label = static_cast<std::int32_t>(rng.below(10));
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(rng.below(256));
  prefer_large_pages(pixels.data(), pixels.size());  // as load_dataset() does
  data.features = std::move(pixels);
  return data;
}

std::unique_ptr<Device> built(const ModelSpec& spec) {
  auto device = make_device("cpu").value();
  if (!device->build(spec, kBatch)) std::exit(1);
  device->load(initial_parameters(spec, 1));
  return device;
}

template <class Run>
void keep_shortest(double& best, Run run) {
  constexpr int kTimes = 400;
  const auto start = steady_now();
  for (int i = 0; i < kTimes; ++i) run();
  const double spent = 1e6 * (steady_now() - start).seconds();
  best = std::min(best, spent / kTimes);
}

}  // namespace

int main(int count, char** arguments) {
  const int turns = count > 1 ? std::atoi(arguments[1]) : 40;
  const Dataset data = images();
  const ModelSpec spec = make_model({"mlp", {64}}, data.shape, data.classes).value();
  std::vector<std::uint32_t> all(data.size());
  std::iota(all.begin(), all.end(), 0u);
  LocalTrainer trainer(built(spec), data, BatchSampler(all, Rng(2)), kBatch, {});
  const auto device = built(spec);
  const std::vector<std::uint32_t> one(all.begin(), all.begin() + kBatch);
  std::vector<float> inputs(kBatch * 784);
  std::vector<std::int32_t> labels(kBatch);
  double whole = 1e300, alone = 1e300, warm = 1e300;
  for (int turn = 0; turn < turns; ++turn) {
    keep_shortest(whole, [&] { trainer.step(); });
    keep_shortest(warm, [&] { data.gather(one, inputs, labels); });
    keep_shortest(alone, [&] { device->step({inputs, labels, kBatch}, 1e-4f); });
  }
  std::printf(
      "mlp 784-64-10, batch %d: step %.1f us, device alone %.1f us, batches %.1f us; "
      "a warm batch %.1f us\n",
      kBatch, whole, alone, whole - alone, warm);
  return 0;
}
