// Every layer on every device: against central finite differences of the plain network in double
// precision, and device against device over batch sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/models.hpp"
#include "train/model/tensors.hpp"
#include "train/reference_network.hpp"

using namespace rubato;
using namespace rubato::train;

namespace {

template <class Real>
double largest(const std::vector<Real>& values) {
  double size = 0;
  for (const Real value : values) size = std::max(size, std::abs(static_cast<double>(value)));
  return size;
}

template <class Real>
double largest_difference(const std::vector<float>& a, const std::vector<Real>& b) {
  REQUIRE(a.size() == b.size());
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    size = std::max(size, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return size;
}

// d(mean loss)/d(parameters) by central differences. In double the step can be so small (1e-6)
// that no unit crosses a kink of ReLU, maximum or hinge.
std::vector<double> finite_differences(const ModelSpec& spec, const std::vector<float>& parameters,
                                       const OwnedBatch& batch) {
  ReferenceNetwork<double> network(spec, *plan_layers(spec));
  std::vector<double> at(parameters.begin(), parameters.end());
  const std::vector<double> inputs(batch.inputs.begin(), batch.inputs.end());
  const auto size = static_cast<double>(batch.view().size);
  constexpr double kStep = 1e-6;
  std::vector<double> slopes(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double here = at[i];
    at[i] = here + kStep;
    const double above = network.evaluate(at, inputs, batch.view().answers()).loss_sum;
    at[i] = here - kStep;
    const double below = network.evaluate(at, inputs, batch.view().answers()).loss_sum;
    at[i] = here;
    slopes[i] = (above - below) / (2 * kStep * size);
  }
  return slopes;
}

// cuDNN may multiply fewer times than loops do, by Winograd's way, and lose a digit.
double looser(const std::string& name) {
  return on_real_gpu(name) ? 10 : 1;
}

}  // namespace

TEST_CASE("gradients of every device equal finite differences") {
  for (const ModelSpec& spec : small_models()) {
    CAPTURE(spec.name);
    const OwnedBatch batch(spec, 2, 11);
    const std::vector<float> parameters = test_parameters(spec, 5);
    const std::vector<double> slopes = finite_differences(spec, parameters, batch);
    REQUIRE(largest(slopes) > 1e-3);
    for (const std::string& name : kDevices) {
      CAPTURE(name);
      for (const int batch_max : {2, 16}) {  // from 16 on the cpu has another way for some images
        CAPTURE(batch_max);
        const auto device = built_device(name, spec, batch_max);
        device->load(parameters);
        std::vector<float> gradient(parameters.size());
        device->gradient(batch.view(), gradient);
        // float32 rounding of sums of up to a few hundred terms
        CHECK(largest_difference(gradient, slopes) < 2e-6 * looser(name) * (1 + largest(slopes)));
      }
    }
  }
}

TEST_CASE("the loss of a number is its squared error, not halved, on every device") {
  // y = 2 x + 1 on x = 1, 3, with targets 1 and 10: errors 2 and -3.
  const ModelSpec spec{"line", {1, 1, 1}, {Dense{1}}, Loss::MeanSquaredError, 1};
  const std::vector<float> inputs = {1, 3}, targets = {1, 10}, parameters = {2, 1};
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const auto device = built_device(name, spec, 2);
    device->load(parameters);
    std::vector<float> gradient(2);
    const BatchResult result = device->gradient({inputs, {}, 2, targets}, gradient);
    CHECK(result.loss_sum == 13);
    CHECK(result.correct == 0);
    CHECK(gradient == std::vector<float>{2 * 1 - 3 * 3, 2 - 3});  // 2 error x / 2
  }
}

TEST_CASE("cpu and reference agree on every model and batch size") {
  constexpr int kBatchMax = 33;
  for (const ModelSpec& spec : small_models()) {
    CAPTURE(spec.name);
    const std::vector<float> parameters = test_parameters(spec, 7);
    const auto reference = built_device("reference", spec, kBatchMax);
    const auto cpu = built_device("cpu", spec, kBatchMax);
    reference->load(parameters);
    cpu->load(parameters);
    for (const int size : {kBatchMax, 1, 2, 16, 31, kBatchMax}) {
      CAPTURE(size);
      const OwnedBatch batch(spec, size, 100 + static_cast<std::uint64_t>(size));
      std::vector<float> expected(parameters.size()), got(parameters.size());
      const BatchResult a = reference->gradient(batch.view(), expected);
      const BatchResult b = cpu->gradient(batch.view(), got);
      CHECK(b.loss_sum == doctest::Approx(a.loss_sum).epsilon(1e-5));
      CHECK(b.correct == a.correct);
      CHECK(largest_difference(got, expected) < 2e-6 * (1 + largest(expected)));
      const BatchResult evaluated = cpu->evaluate(batch.view());
      CHECK(evaluated.loss_sum == b.loss_sum);
      CHECK(evaluated.correct == b.correct);
    }
  }
}

TEST_CASE("all devices agree on the models a user can choose") {
  const std::vector<std::pair<ModelOptions, Shape>> table = {
      {{"mlp", {64}}, {1, 28, 28}},
      {{"mlp", {33, 17}}, {13, 1, 1}},
      {{"svm", {}}, {8, 1, 1}},
      {{"cnn", {}}, {1, 12, 12}},
      {{"cnn", {}}, {3, 9, 11}},
      {{"lstm", {}}, {1, 28, 28}},
      {{"lstm", {20, 9}}, {2, 7, 3}},
      {{"lenet", {}}, {1, 28, 28}},
      {{"lenet", {}}, {3, 32, 32}},
      {{"cnn1d", {}}, {1, 50, 6}},
      {{"cnn1d", {20, 9, 7}}, {1, 33, 1}},
      {{"cnn1d", {8}}, {3, 9, 11}},
  };
  for (const auto& [options, shape] : table) {
    const ModelSpec spec = make_model(options, shape, 10).value();
    CAPTURE(spec.name);
    CAPTURE(shape.count());
    const std::vector<float> parameters = initial_parameters(spec, 3);
    const OwnedBatch batch(spec, 5, 4);
    std::vector<float> expected(parameters.size()), got(parameters.size());
    const auto reference = built_device("reference", spec, 5);
    reference->load(parameters);
    const BatchResult a = reference->gradient(batch.view(), expected);
    for (const std::string name : {"cpu", "cuda"}) {
      CAPTURE(name);
      const auto device = built_device(name, spec, 5);
      device->load(parameters);
      const BatchResult b = device->gradient(batch.view(), got);
      CHECK(b.loss_sum == doctest::Approx(a.loss_sum).epsilon(1e-5));
      CHECK(largest_difference(got, expected) < 1e-5 * looser(name) * (1 + largest(expected)));
    }
  }
}

// The constants are the output of tests/train/sequence_golden.py, with PyTorch 1.13.
TEST_CASE("cnn1d: the loss and its gradient as PyTorch's Conv1d, from the same tensors") {
  const ModelSpec spec = make_model({"cnn1d", {4, 3}}, {1, 9, 3}, 2).value();
  const double gradients[] = {0.1445847934596309,   -0.04470387177421994, -0.027875824458365683,
                              0.007752236598117767, 0.031983820981987904, -0.03263441806061775};
  std::vector<float> parameters(parameter_count(spec)), inputs(2 * 9 * 3);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] = static_cast<float>(0.4 * std::sin(0.7 * static_cast<double>(i) + 1));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = static_cast<float>(std::cos(1.3 * static_cast<double>(i)));
  const std::vector<std::int32_t> labels = {0, 1};
  const auto places = tensor_places(spec);
  REQUIRE(places.size() == std::size(gradients));
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const auto device = built_device(name, spec, 2);
    device->load(parameters);
    std::vector<float> gradient(parameters.size());
    const BatchResult result = device->gradient({inputs, labels, 2}, gradient);
    CHECK(result.loss_sum == doctest::Approx(1.4039248940090352).epsilon(1e-6));
    for (std::size_t i = 0; i < places.size(); ++i) {
      CAPTURE(places[i].name);
      double sum = 0;
      for (std::uint64_t at = 0; at < places[i].count(); ++at)
        sum += gradient[places[i].offset + at] * std::cos(static_cast<double>(at));
      CHECK(std::abs(sum - gradients[i]) < 1e-6 * looser(name));
    }
  }
}

TEST_CASE("the first of equal maxima wins a pool's gradient") {
  // The convolution adds its two channels: (1,4), (2,3), (3,2), (4,1) all give 5. The gradient of
  // its weights tells which of them the pool chose.
  const ModelSpec square{"ties", {2, 2, 2}, {Conv2d{1}, MaxPool2d{2, 2, 0, 0}, Dense{2}}, {}, 2};
  const ModelSpec column{
      "ties in a column", {2, 4, 1}, {Conv2d{1}, MaxPool2d{{4, 1}, {4, 1}}, Dense{2}}, {}, 2};
  const std::vector<float> inputs = {1, 2, 3, 4, 4, 3, 2, 1};
  const std::vector<std::int32_t> labels = {0};
  const std::vector<float> parameters = {1, 1, 0, 1, -1, 0, 0};  // conv 1 1 +0, dense 1 -1 +0 0
  for (const ModelSpec& spec : {square, column})
    for (const std::string& name : kDevices) {
      CAPTURE(spec.name);
      CAPTURE(name);
      const auto device = built_device(name, spec, 1);
      device->load(parameters);
      std::vector<float> gradient(parameters.size());
      device->gradient({inputs, labels, 1}, gradient);
      CHECK(gradient[0] < 0);
      CHECK(gradient[1] == doctest::Approx(4 * gradient[0]));
    }
}

TEST_CASE("response norm sums over 2 radius + 1 channels with alpha undivided") {
  // Three channels of 1, 2, 3 by the bias of a convolution whose weights are 0; radius 1.
  const LocalResponseNorm norm{.radius = 1, .bias = 1.0f, .alpha = 0.5f, .beta = 1.0f};
  const ModelSpec spec{"norm", {1, 1, 1}, {Conv2d{3}, norm, Dense{3}}, {}, 3};
  std::vector<float> parameters(parameter_count(spec), 0.0f);
  for (int c = 0; c < 3; ++c) {
    parameters[3 + c] = static_cast<float>(c + 1);
    parameters[6 + 4 * c] = 1;  // dense weights: identity
  }
  // y = x / (1 + 0.5 sum of squares): 1 / 3.5, 2 / 8, 3 / 7.5
  const double y[] = {1 / 3.5, 2 / 8.0, 3 / 7.5};
  const double expected = std::log(std::exp(y[0]) + std::exp(y[1]) + std::exp(y[2])) - y[1];
  const std::vector<float> input = {1};
  const std::vector<std::int32_t> label = {1};
  for (const std::string& name : kDevices) {
    CAPTURE(name);
    const auto device = built_device(name, spec, 1);
    device->load(parameters);
    CHECK(device->evaluate({input, label, 1}).loss_sum == doctest::Approx(expected).epsilon(1e-6));
  }
}
