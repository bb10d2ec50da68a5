// Image layers with samples in the lanes of a vector, each set of kernels that this processor has,
// beside oneDNN.
#include "train/cpu/lane_stage.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "train/cpu/image_stage.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

std::vector<float> normals(std::size_t count, Rng& rng) {
  std::vector<float> out(count);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

// Of the largest of `b`.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double apart = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double other = static_cast<double>(b[i]);
    apart = std::max(apart, std::abs(static_cast<double>(a[i]) - other));
    largest = std::max(largest, std::abs(other));
  }
  return apart / largest;
}

// Of a model with a dense layer behind them.
ImageLayers image_layers(const Shape& input, const std::vector<Layer>& layers, bool first) {
  ModelSpec spec{"image", input, layers, Loss::SoftmaxCrossEntropy, 2};
  spec.layers.emplace_back(Dense{2});
  auto plans = plan_layers(spec);
  REQUIRE(plans);
  plans->pop_back();
  return {layers, *plans, first};
}

struct Results {
  std::vector<float> output, input_gradient, gradient;
};

template <class Stage>
Results run(Stage stage, const ImageLayers& image, int size) {
  Rng rng(7);
  std::size_t parameter_count = 0;
  for (const LayerPlan& plan : image.plans) parameter_count += plan.weight_count + plan.bias_count;
  const auto count = [&](const Shape& shape) {
    return static_cast<std::size_t>(shape.count()) * static_cast<std::size_t>(size);
  };
  const std::vector<float> parameters = normals(parameter_count, rng);
  const std::vector<float> input = normals(count(image.plans.front().input), rng);
  std::vector<float> dy = normals(count(image.plans.back().output), rng);
  Results out;
  out.output.resize(dy.size());
  out.input_gradient.resize(input.size());
  out.gradient.resize(parameters.size());
  stage.forward(parameters.data(), input.data(), out.output.data(), size);
  stage.backward(parameters.data(), input.data(), out.output.data(), dy.data(),
                 image.first ? nullptr : out.input_gradient.data(), out.gradient.data(), size);
  return out;
}

}  // namespace

TEST_CASE("lanes: every set of kernels computes what oneDNN does") {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const struct {
    const char* name;
    Shape input;
    std::vector<Layer> layers;
  } cases[] = {
      {"lenet", {1, 16, 16}, {Conv2d{20, 5}, MaxPool2d{}, Conv2d{50, 5}, MaxPool2d{}}},
      {"one channel", {3, 7, 6}, {Conv2d{1, 3}, Relu{}}},
      {"tiles of every size", {13, 5, 5}, {Conv2d{27, 2}, Relu{}, Conv2d{11, 3}, Conv2d{4, 2}}},
      {"wide kernel", {2, 9, 9}, {Conv2d{5, 8}, Relu{}}},
      {"windows overlap", {6, 9, 9}, {MaxPool2d{3, 2}, Conv2d{7, 2}, Relu{}}},
      {"windows leave a rest", {5, 8, 7}, {Conv2d{3, 1}, MaxPool2d{3, 3}}},
  };
  for (const auto& [name, input, layers] : cases)
    for (const bool first : {false, true})
      for (const int size : {1, 15, 16, 37}) {
        const ImageLayers image = image_layers(input, layers, first);
        REQUIRE(LaneStage::can_run(image));
        const Results theirs = run(ImageStage(image, size, engine), image, size);
        for (const LaneKernels* kernels : lane_kernels()) {
          CAPTURE(std::string(name));
          CAPTURE(std::string(kernels->name));
          CAPTURE(size);
          const Results ours = run(LaneStage(*kernels, image, size), image, size);
          CHECK(difference(ours.output, theirs.output) < 1e-5);
          CHECK(difference(ours.gradient, theirs.gradient) < 1e-5);
          if (!first) CHECK(difference(ours.input_gradient, theirs.input_gradient) < 1e-5);
        }
      }
}

TEST_CASE("lanes: a run of layers that they cannot compute is left to oneDNN") {
  const auto suited = [](const std::vector<Layer>& layers, int batch) {
    return LaneStage::suited(image_layers({3, 8, 8}, layers, true), batch) != nullptr;
  };
  const bool here = !lane_kernels().empty();
  const bool fits = !here || lane_kernels().front()->onednn_block > 1;
  CHECK(suited({Conv2d{20, 3}, Relu{}}, 32) == here);
  CHECK_FALSE(suited({Conv2d{20, 3}, Relu{}}, 3));      // lanes without samples
  CHECK(suited({Conv2d{32, 3}, Relu{}}, 32) == !fits);  // blocks of channels
  CHECK_FALSE(suited({Conv2d{20, 3, 2}}, 32));
  CHECK_FALSE(suited({Conv2d{20, {3, 2}}}, 32));
  CHECK_FALSE(suited({Conv2d{20, 3}, MaxPool2d{{2, 1}, 2}}, 32));
  CHECK_FALSE(suited({Conv2d{20, 3}, MaxPool2d{2, {2, 1}}}, 32));
  CHECK_FALSE(suited({Conv2d{20, 3, 1, 1}}, 32));
  CHECK_FALSE(suited({Conv2d{20, 3}, MaxPool2d{2, 2, 0, 1}}, 32));
  CHECK_FALSE(suited({Conv2d{20, 3}, LocalResponseNorm{}}, 32));
}
