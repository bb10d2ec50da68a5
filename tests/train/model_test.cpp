#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "train/model/model_spec.hpp"

using namespace rubato;
using namespace rubato::train;

TEST_CASE("the paper's Cifar-10 network has its published 148,298 parameters") {
  const ModelSpec spec = make_model({"cnn", {}}, {3, 32, 32}, 10).value();
  CHECK(parameter_count(spec) == 148298);
  const auto plans = plan_layers(spec).value();
  CHECK(plans[2].output == Shape{64, 16, 16});  // "SAME" pools: 32 -> 16 -> 8
  CHECK(plans[7].output == Shape{64, 8, 8});
}

TEST_CASE("parameter counts of the other models") {
  const auto count = [](const ModelOptions& options, Shape shape) {
    return parameter_count(make_model(options, shape, 10).value());
  };
  CHECK(count({"cnn", {}}, {1, 28, 28}) == 5 * 5 * 64 + 64 + 102464 + 7 * 7 * 64 * 10 + 10);
  CHECK(count({"mlp", {}}, {1, 28, 28}) == 784 * 64 + 64 + 640 + 10);
  CHECK(count({"mlp", {100, 50}}, {20, 1, 1}) == 2100 + 5050 + 510);
  CHECK(count({"svm", {}}, {8, 1, 1}) == 90);
  CHECK(count({"lenet", {}}, {1, 28, 28}) == 431080);  // Caffe's
  CHECK(count({"lenet", {}}, {3, 32, 32}) ==
        20 * 75 + 20 + 50 * 500 + 50 + 500 * 50 * 5 * 5 + 500 + 5010);
  CHECK(count({"cnn1d", {}}, {1, 128, 9}) ==
        64 * 5 * 9 + 64 + 64 * 64 * 5 + 64 + 64 * 32 * 10 + 10);
  CHECK(count({"cnn1d", {8}}, {3, 32, 30}) == 8 * 3 * 5 * 30 + 8 + 8 * 16 * 10 + 10);
  CHECK(count({"lstm", {}}, {1, 28, 28}) ==
        4 * 128 * (28 + 128) + 4 * 128 + 128 * 384 + 384 + 3840 + 10);
}

TEST_CASE("cnn1d: windows of five steps and all features, each convolution halves the steps") {
  const ModelSpec spec = make_model({"cnn1d", {8, 6, 4}}, {1, 50, 3}, 10).value();
  const auto plans = plan_layers(spec).value();
  REQUIRE(plans.size() == 10);
  CHECK(plans[0].output == Shape{8, 50, 1});
  CHECK(plans[2].output == Shape{8, 25, 1});
  CHECK(plans[3].weight_count == 6 * 8 * 5);
  CHECK(plans[5].output == Shape{6, 12, 1});
  CHECK(plans[8].output == Shape{4, 6, 1});
}

TEST_CASE("layers lie one behind the other, weights then bias") {
  const ModelSpec spec = make_model({"mlp", {5}}, {3, 1, 1}, 2).value();
  const auto plans = plan_layers(spec).value();
  REQUIRE(plans.size() == 3);
  CHECK(plans[0].weight_offset == 0);
  CHECK(plans[0].bias_offset == 15);
  CHECK(plans[1].weight_count == 0);
  CHECK(plans[2].weight_offset == 20);
  CHECK(plans[2].bias_offset == 30);
  CHECK(parameter_count(spec) == 32);
}

TEST_CASE("initial parameters: their spread, their seed, the forget gate") {
  const ModelSpec mlp = make_model({"mlp", {200}}, {400, 1, 1}, 10).value();
  const auto parameters = initial_parameters(mlp, 1);
  CHECK(parameters == initial_parameters(mlp, 1));
  CHECK(parameters != initial_parameters(mlp, 2));
  double square = 0;
  for (int i = 0; i < 80000; ++i) square += parameters[i] * parameters[i];
  CHECK(std::sqrt(square / 80000) == doctest::Approx(std::sqrt(2.0 / 400)).epsilon(0.02));  // He
  square = 0;
  for (int i = 80200; i < 82200; ++i) square += parameters[i] * parameters[i];
  CHECK(std::sqrt(square / 2000) == doctest::Approx(std::sqrt(2.0 / 210)).epsilon(0.05));  // Glorot
  for (int i = 80000; i < 80200; ++i) CHECK(parameters[i] == 0);

  // Of a convolution all places of the kernel count: He, 5 x 9 and 64 x 5.
  const ModelSpec sequence = make_model({"cnn1d", {}}, {1, 128, 9}, 10).value();
  const auto plans = plan_layers(sequence).value();
  const auto filters = initial_parameters(sequence, 1);
  for (const auto& [layer, inputs] : {std::pair{0, 45}, std::pair{3, 320}}) {
    const LayerPlan& plan = plans[static_cast<std::size_t>(layer)];
    square = 0;
    for (std::uint64_t i = 0; i < plan.weight_count; ++i)
      square += filters[plan.weight_offset + i] * filters[plan.weight_offset + i];
    CHECK(std::sqrt(square / static_cast<double>(plan.weight_count)) ==
          doctest::Approx(std::sqrt(2.0 / inputs)).epsilon(0.05));
  }
  // Where no ReLU follows, Glorot: 15 inputs and 8 x 15 outputs of a weight.
  const ModelSpec linear{"linear", {1, 60, 3}, {Conv2d{64, {5, 3}}, Dense{2}}, {}, 2};
  const auto weights = initial_parameters(linear, 1);
  square = 0;
  for (int i = 0; i < 960; ++i) square += weights[i] * weights[i];
  CHECK(std::sqrt(square / 960) == doctest::Approx(std::sqrt(2.0 / (15 + 64 * 15))).epsilon(0.1));

  const ModelSpec lstm = make_model({"lstm", {3, 4}}, {1, 2, 2}, 2).value();
  const auto gates = initial_parameters(lstm, 1);
  const auto bias = gates.begin() + 4 * 3 * (2 + 3);
  CHECK(std::vector<float>(bias, bias + 12) ==
        std::vector<float>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
}

// TensorFlow's CIFAR-10 tutorial, which the ADSP paper's network comes from.
TEST_CASE("init = paper: the moments of each layer's values, and its biases") {
  ModelOptions options{.kind = "cnn", .hidden = {}};
  options.init = Init::Paper;
  const ModelSpec cnn = make_model(options, {3, 32, 32}, 10).value();
  const auto plans = plan_layers(cnn).value();
  const auto parameters = initial_parameters(cnn, 1);
  CHECK(parameters != initial_parameters(cnn, 2));
  const auto check = [&](std::size_t layer, double deviation, float bias) {
    CAPTURE(layer);
    const LayerPlan& plan = plans[layer];
    const auto count = static_cast<double>(plan.weight_count);
    double sum = 0, square = 0, fourth = 0;
    for (std::uint64_t i = 0; i < plan.weight_count; ++i) {
      const double x = parameters[plan.weight_offset + i] / deviation;
      sum += x;
      square += x * x;
      fourth += x * x * x * x;
    }
    // Four deviations of each moment's own noise: 1, 2 and 96 are those of a normal value's.
    CHECK(std::abs(sum / count) < 4 / std::sqrt(count));
    CHECK(std::abs(square / count - 1) < 4 * std::sqrt(2 / count));
    CHECK(std::abs(fourth / count - 3) < 4 * std::sqrt(96 / count));
    for (std::uint64_t i = 0; i < plan.bias_count; ++i)
      CHECK(parameters[plan.bias_offset + i] == bias);
  };
  check(0, 0.05, 0.0f);
  check(4, 0.05, 0.1f);
  check(8, 1.0 / 192, 0.0f);
}

TEST_CASE("initial parameters of a range are those of the whole, in memory of its size") {
  const ModelSpec spec = make_model({"lstm", {3, 4}}, {1, 2, 2}, 2).value();
  const auto all = initial_parameters(spec, 7);
  const auto count = static_cast<std::uint64_t>(all.size());
  for (std::uint64_t begin = 0; begin <= count; ++begin)
    for (std::uint64_t end = begin; end <= count; ++end) {
      const auto part = initial_parameters(spec, 7, {begin, end});
      REQUIRE(part.size() == end - begin);
      REQUIRE(part.capacity() == end - begin);
      REQUIRE(std::ranges::equal(part, std::span(all).subspan(begin, end - begin)));
    }
}

TEST_CASE("refused models are named with the remedy") {
  const auto message = [](const ModelOptions& options, Shape shape) {
    const auto spec = make_model(options, shape, 10);
    REQUIRE(!spec.has_value());
    CHECK(spec.error().code == ErrorCode::BadInput);
    return spec.error().message;
  };
  CHECK(message({"cnm", {}}, {1, 28, 28}) ==
        "model.kind: unknown model \"cnm\"; use mlp, cnn, lenet, cnn1d, lstm, svm or layers");
  CHECK(message({"cnn", {64}}, {1, 28, 28}) ==
        "model.hidden: cnn has no sizes to choose; remove the key or use mlp, cnn1d or lstm");
  for (const char* kind : {"svm", "lenet", "cnn1d", "lstm"})
    CHECK(message({.kind = kind, .hidden = {}, .linear = true}, {1, 28, 28}) ==
          fmt::format("model.hidden: [] makes an mlp a linear model; {} has layers of its own; "
                      "remove the key or use mlp",
                      kind));
  CHECK(message({"lenet", {500}}, {1, 28, 28}) ==
        "model.hidden: lenet has no sizes to choose; remove the key or use mlp, cnn1d or lstm");
  CHECK(message({"lenet", {}}, {1, 12, 12}) ==
        "model lenet: layer 2 (conv2d of 50 channels, kernel 5, stride 1, padding 0) does not fit "
        "its input 20x4x4");
  CHECK(message({"lstm", {64}}, {1, 28, 28}) ==
        "model.hidden: lstm takes two sizes, [LSTM, dense], not 1; for example [128, 384]");
  CHECK(message({"cnn1d", {}}, {1, 3, 6}) ==
        "model.hidden: each convolution of cnn1d halves the time steps, and 2 are too many for 3 "
        "steps; use [64]");
  CHECK(message({"cnn1d", {8, 7, 6, 5}}, {1, 15, 6}) ==
        "model.hidden: each convolution of cnn1d halves the time steps, and 4 are too many for 15 "
        "steps; use [8, 7, 6]");
  CHECK(make_model({"cnn1d", {8, 7, 6}}, {1, 15, 6}, 10).has_value());
  CHECK(make_model({"cnn1d", {8, 7, 6, 5}}, {1, 16, 6}, 10).has_value());
  CHECK(message({"cnn1d", {8, 0}}, {1, 16, 6}) ==
        "model.hidden: 0 is not a layer size; use 1 to 65536");
  CHECK(message({"cnn1d", {}}, {8, 1, 1}) ==
        "model.kind: cnn1d needs images or sequences, but a sample of this data set is 8 plain "
        "features; use mlp or svm, or save sequences as a NumPy array of [samples, steps, "
        "channels]");
  CHECK(message({"mlp", {64, 0}}, {1, 28, 28}) ==
        "model.hidden: 0 is not a layer size; use 1 to 65536");
  CHECK(message({"mlp", {65536, 65536}}, {1, 28, 28}) ==
        "model.hidden: a model of 4347133962 parameters is not trained here (limit 1073741824); "
        "use smaller layers, or kind = \"timing\"");
  CHECK(message({"svm", {}}, {1'000'000'000, 1, 1}) ==
        "model.kind: a model of 10000000010 parameters is not trained here (limit 1073741824); "
        "use data of fewer features or classes");
  CHECK(message({"cnn", {}}, {8, 1, 1}) ==
        "model.kind: cnn needs images, but a sample of this data set is 8 plain "
        "features; use mlp or svm");
}

TEST_CASE("a layer that does not fit its input is named") {
  const auto message = [](const ModelSpec& spec) {
    const auto plans = plan_layers(spec);
    REQUIRE(!plans.has_value());
    return plans.error().message;
  };
  CHECK(message({"m", {1, 4, 4}, {Relu{}, Conv2d{2, 5, 1, 0}, Dense{2}}, {}, 2}) ==
        "model m: layer 1 (conv2d of 2 channels, kernel 5, stride 1, padding 0) does not fit its "
        "input 1x4x4");
  CHECK(message({"m", {1, 4, 4}, {Conv2d{2, {3, 5}, 1, {1, 0}}, Dense{2}}, {}, 2}) ==
        "model m: layer 0 (conv2d of 2 channels, kernel 3x5, stride 1, padding 1x0) does not fit "
        "its input 1x4x4");
  CHECK(message({"m", {1, 4, 4}, {MaxPool2d{2, 2, 2, 0}, Dense{2}}, {}, 2}) ==
        "model m: layer 0 (max-pool of kernel 2, stride 2, padding 2 and 0) does not fit its input "
        "1x4x4");
  CHECK(message({"m", {1, 4, 4}, {Dense{3}}, {}, 2}) ==
        "model m: its output 3x1x1 is not one score for each of 2 classes");
  CHECK(message({"m", {0, 1, 1}, {Dense{2}}, {}, 2}) == "model m: input 0x1x1 is empty");
}
