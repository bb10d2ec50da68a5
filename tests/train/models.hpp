// tests/train/models.hpp - small models that together hold every layer in every position that
// matters, and random batches for them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "tests/train/host_gpu.hpp"
#include "train/cuda/cuda_device.hpp"
#include "train/device.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::train {

inline std::vector<ModelSpec> small_models() {
  const Dense three{3};
  const Conv2d conv3{.channels = 4, .kernel = 3, .stride = 1, .padding = 1};
  const Conv2d wide{.channels = 20, .kernel = 3, .stride = 1, .padding = 1};
  const Conv2d rows5{.channels = 5, .kernel = {5, 1}, .padding = {2, 0}};
  const MaxPool2d halve{.kernel = {2, 1}, .stride = {2, 1}};
  const LocalResponseNorm strong{.radius = 1, .bias = 1.0f, .alpha = 0.3f, .beta = 0.75f};
  const LocalResponseNorm other{.radius = 3, .bias = 2.0f, .alpha = 0.1f, .beta = 0.5f};
  const auto hinge = Loss::MultiClassHinge;
  const auto cross = Loss::SoftmaxCrossEntropy;
  const auto square = Loss::MeanSquaredError;
  return {
      {"dense", {7, 1, 1}, {three}, cross, 3},
      {"dense, hinge", {7, 1, 1}, {three}, hinge, 3},
      {"dense, weights", {7, 1, 1}, {three}, cross, 3, Init::Scaled, {0.5f, 4, 1}},
      {"dense, hinge, weights", {7, 1, 1}, {three}, hinge, 3, Init::Scaled, {0.5f, 4, 1}},
      {"dense, relu", {7, 1, 1}, {Dense{5}, Relu{}, Dense{4}, Relu{}, three}, cross, 3},
      {"relu first", {7, 1, 1}, {Relu{}, Dense{5}, Relu{}, Relu{}, three}, hinge, 3},
      {"two classes", {2, 3, 1}, {Dense{2}}, hinge, 2},
      {"conv", {2, 6, 7}, {conv3, three}, cross, 3},
      {"conv 1x1", {3, 4, 4}, {Conv2d{.channels = 5}, Relu{}, three}, cross, 3},
      {"conv, stride 2", {3, 7, 6}, {conv3, Relu{}, Conv2d{5, 3, 2, 1}, Relu{}, three}, cross, 3},
      {"conv, even kernel", {1, 6, 5}, {Conv2d{4, 2, 1, 0}, Conv2d{3, 4, 3, 2}, three}, cross, 3},
      {"conv of blocks", {16, 3, 2}, {Conv2d{16, 3, 1, 1}, Relu{}, conv3, three}, cross, 3},
      {"max-pool", {1, 6, 6}, {conv3, MaxPool2d{2, 2, 0, 0}, three}, cross, 3},
      {"max-pool, overlap", {2, 8, 7}, {conv3, Relu{}, MaxPool2d{3, 2, 0, 1}, three}, cross, 3},
      {"max-pool, padding", {2, 5, 5}, {conv3, MaxPool2d{3, 2, 1, 1}, three}, hinge, 3},
      {"max-pool first", {2, 4, 4}, {MaxPool2d{2, 2, 0, 0}, conv3, three}, cross, 3},
      {"lenet, small",
       {2, 16, 16},
       {Conv2d{3, 5, 1, 0}, MaxPool2d{}, Conv2d{4, 5, 1, 0}, MaxPool2d{}, Dense{6}, Relu{}, three},
       cross,
       3},
      {"conv, tiles",
       {6, 7, 9},
       {Conv2d{17, 3}, Relu{}, MaxPool2d{}, Conv2d{14, 2}, three},
       cross,
       3},
      {"conv, tall", {2, 6, 4}, {Conv2d{5, 4}, Relu{}, three}, cross, 3},
      {"conv, overlap", {3, 8, 8}, {Conv2d{7, 2}, MaxPool2d{3, 2}, Relu{}, three}, cross, 3},
      {"pool, conv", {2, 8, 7}, {Relu{}, MaxPool2d{}, Conv2d{5, 2}, Relu{}, three}, hinge, 3},
      {"conv, rectangles",
       {2, 6, 7},
       {Conv2d{4, {3, 2}, {2, 1}, {1, 0}}, Relu{}, Conv2d{3, {1, 4}, {1, 2}, {0, 1}}, three},
       cross,
       3},
      {"conv, wide", {1, 4, 8}, {Conv2d{5, {2, 8}}, Relu{}, Conv2d{4, {3, 1}}, three}, cross, 3},
      {"max-pool, rectangles",
       {2, 7, 6},
       {conv3, MaxPool2d{{3, 2}, {2, 1}, {1, 0}, {0, 1}}, MaxPool2d{{1, 3}, {1, 2}}, three},
       cross,
       3},
      {"rectangles without padding",
       {1, 8, 6},
       {Conv2d{5, {3, 2}}, Relu{}, halve, three},
       hinge,
       3},
      {"sequence",
       {1, 9, 3},
       {Conv2d{6, {5, 3}, 1, {2, 0}}, Relu{}, halve, rows5, Relu{}, halve, three},
       cross,
       3},
      {"sequence of blocks",
       {1, 7, 2},
       {Conv2d{16, {5, 2}, 1, {2, 0}}, Relu{}, halve, Conv2d{16, {5, 1}, 1, {2, 0}}, Relu{}, three},
       cross,
       3},
      {"sequence of three planes",
       {3, 6, 4},
       {Conv2d{6, {5, 4}, 1, {2, 0}}, strong, halve, rows5, three},
       cross,
       3},
      {"sequence behind relu",
       {1, 6, 1},
       {Relu{}, Conv2d{6, {5, 1}, 1, {2, 0}}, MaxPool2d{{3, 1}, {2, 1}, {1, 0}, {1, 0}}, three},
       cross,
       3},
      {"response norm", {1, 4, 3}, {conv3, strong, three}, cross, 3},
      {"response norm, wide", {2, 4, 4}, {wide, Relu{}, other, conv3, strong, three}, cross, 3},
      {"response norm first", {3, 4, 2}, {strong, conv3, three}, cross, 3},
      {"response norm, flat", {6, 1, 1}, {Dense{7}, other, Relu{}, three}, cross, 3},
      {"dense before conv", {6, 1, 1}, {Dense{8}, Relu{}, Conv2d{.channels = 4}, three}, cross, 3},
      {"lstm", {2, 5, 3}, {Lstm{4}, three}, cross, 3},
      {"lstm, one step", {5, 1, 1}, {Lstm{3}, Relu{}, three}, hinge, 3},
      {"lstm behind sequence",
       {1, 7, 2},
       {Conv2d{4, {5, 2}, 1, {2, 0}}, Relu{}, Lstm{5}, three},
       cross,
       3},
      {"lstm behind conv", {1, 6, 4}, {conv3, Lstm{5}, Dense{4}, Relu{}, three}, cross, 3},
      {"dense, number", {7, 1, 1}, {Dense{1}}, square, 1},
      {"dense, relu, number", {7, 1, 1}, {Dense{5}, Relu{}, Dense{1}}, square, 1},
      {"conv, number", {2, 6, 7}, {conv3, Relu{}, Dense{1}}, square, 1},
      {"sequence, number",
       {1, 6, 3},
       {Conv2d{5, {5, 3}, 1, {2, 0}}, Relu{}, halve, Dense{1}},
       square,
       1},
      {"lstm, number", {2, 5, 3}, {Lstm{4}, Dense{1}}, square, 1},
  };
}

// A batch that owns its samples: standard normal inputs, uniform labels or standard normal targets.
struct OwnedBatch {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
  std::vector<float> targets;

  OwnedBatch(const ModelSpec& spec, int size, std::uint64_t seed)
      : inputs(static_cast<std::size_t>(size * spec.input.count())),
        labels(spec.classes > 1 ? static_cast<std::size_t>(size) : 0),
        targets(spec.classes > 1 ? 0 : static_cast<std::size_t>(size)) {
    Rng rng(seed);
    for (float& x : inputs) x = static_cast<float>(rng.normal());
    for (float& target : targets) target = static_cast<float>(rng.normal());
    for (auto& label : labels) {
      label = static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(spec.classes)));
    }
  }
  Batch view() const {
    return {inputs, labels, static_cast<int>(labels.size() + targets.size()), targets};
  }
};

// Initial parameters with biases that are not 0, so that these are tested too.
inline std::vector<float> test_parameters(const ModelSpec& spec, std::uint64_t seed) {
  std::vector<float> parameters = initial_parameters(spec, seed);
  Rng rng(seed, 1, 0);
  for (float& parameter : parameters) parameter += static_cast<float>(0.1 * rng.normal());
  return parameters;
}

// All devices. "cuda": the CUDA device on a GPU made of plain loops (tests/train/host_gpu.hpp);
// with RUBATO_TEST_GPU in the environment on the first GPU of this machine.
inline const std::string kDevices[] = {"reference", "cpu", "cuda"};

inline bool on_real_gpu(std::string_view name) {
  return name == "cuda" && std::getenv("RUBATO_TEST_GPU") != nullptr;
}

inline Result<std::unique_ptr<Device>> any_device(std::string_view name) {
  if (name == "cuda" && !on_real_gpu(name))
    return std::make_unique<CudaDevice>(std::make_unique<cuda::HostGpu>());
  return make_device(name);
}

inline std::unique_ptr<Device> built_device(std::string_view name, const ModelSpec& spec,
                                            int batch_max) {
  auto device = any_device(name);
  if (!device) throw std::runtime_error(device.error().message);
  if (const auto built = (*device)->build(spec, batch_max); !built) {
    throw std::runtime_error(built.error().message);
  }
  return std::move(*device);
}

}  // namespace rubato::train
