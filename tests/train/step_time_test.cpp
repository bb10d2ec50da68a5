// What a step computes, counted by the plain loops of the reference; how long that takes on devices
// whose speed is known exactly.
#include "train/step_time.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "train/cpu/cpu_device.hpp"
#include "train/reference_layers.hpp"

namespace rubato::train::step_time_tests {
namespace {

// A number that counts the multiplications of its kind.
struct Counted {
  double value = 0;
  static inline double products = 0;

  Counted() = default;
  Counted(double v) : value(v) {}  // NOLINT(google-explicit-constructor): as float and double
  Counted& operator+=(const Counted& other) {
    value += other.value;
    return *this;
  }
  friend Counted operator*(const Counted& a, const Counted& b) {
    ++products;
    return a.value * b.value;
  }
};

using Values = std::vector<Counted>;

ModelSpec model_of(Shape input, std::vector<Layer> layers, int classes) {
  return {.name = "test", .input = input, .layers = std::move(layers), .classes = classes};
}

double operations_of(const ModelSpec& spec, int batch, KernelKind kind) {
  double operations = 0;
  for (const LayerWork& layer : step_work(spec, batch))
    for (const Kernel& kernel : layer.kernels)
      if (kernel.kind == kind) operations += kernel.work;
  return operations;
}

// Every kind of kernel at the same rate.
DeviceRates even_device(double operations, double values, double copied) {
  DeviceRates device;
  for (std::size_t kind = 0; kind < kKernelKinds; ++kind)
    device.kernels[kind] = {
        {{1, 1, 1, 1}, kernel_name(static_cast<KernelKind>(kind)).values ? values : operations}};
  device.copies = {{1024, copied}};
  return device;
}

}  // namespace

TEST_CASE("step work: a dense layer multiplies as often as the reference's loops") {
  for (const bool first : {true, false}) {
    constexpr int kBatch = 3, kInputs = 7, kHidden = 5, kOutputs = 4;
    Counted::products = 0;
    Values x(kBatch * kInputs), w(kHidden * kInputs), b(kHidden), y(kBatch * kHidden), dy(y.size());
    Values dx(x.size()), dw(w.size()), db(b.size());
    reference::dense_forward(kBatch, kInputs, kHidden, x.data(), w.data(), b.data(), y.data());
    reference::dense_backward(kBatch, kInputs, kHidden, x.data(), w.data(), dy.data(),
                              first ? nullptr : dx.data(), dw.data(), db.data());
    std::vector<Layer> layers{Dense{kHidden}, Dense{kOutputs}};
    Shape input{kInputs, 1, 1};
    if (!first) {
      layers.insert(layers.begin(), Dense{kInputs});
      input = {2, 1, 1};
    }
    const auto work = step_work(model_of(input, layers, kOutputs), kBatch);
    CHECK(work[first ? 0 : 1].operations == 2 * Counted::products);
  }
}

TEST_CASE("step work: a convolution multiplies as often as the reference's loops") {
  for (const bool first : {true, false}) {
    constexpr int kBatch = 2;
    const Conv2d conv{.channels = 6, .kernel = {3, 2}, .stride = {2, 1}};
    std::vector<Layer> layers{conv, Dense{3}};
    if (!first) layers.insert(layers.begin(), Relu{});
    const ModelSpec spec = model_of({2, 9, 5}, layers, 3);
    const LayerPlan plan = plan_layers(spec).value()[first ? 0 : 1];
    Values x(kBatch * plan.input.count()), w(plan.weight_count), b(plan.bias_count);
    Values y(kBatch * plan.output.count()), dx(x.size()), dw(w.size()), db(b.size());
    Counted::products = 0;
    reference::conv_forward(kBatch, plan.input, plan.output, conv, x.data(), w.data(), b.data(),
                            y.data());
    reference::conv_backward(kBatch, plan.input, plan.output, conv, x.data(), w.data(), y.data(),
                             first ? nullptr : dx.data(), dw.data(), db.data());
    CHECK(operations_of(spec, kBatch, KernelKind::UnevenConvolution) == 2 * Counted::products);
  }
}

TEST_CASE("step work: an LSTM multiplies for four gates in each time step, and three ways") {
  const double batch = 2, steps = 12, features = 9, units = 16;
  const double inputs = 4 * units * features, state = 4 * units * units;
  // Forward and the gradient of the weights: inputs and state. Back through time: the state.
  const double first = 2 * batch * steps * (2 * (inputs + state) + state);
  const ModelSpec spec = model_of({1, 12, 9}, {Lstm{16}, Dense{3}}, 3);
  CHECK(operations_of(spec, 2, KernelKind::Lstm) == first);
  // Behind another layer the inputs want a gradient, too.
  const ModelSpec behind = model_of({1, 12, 9}, {Relu{}, Lstm{16}, Dense{3}}, 3);
  CHECK(operations_of(behind, 2, KernelKind::Lstm) == first + 2 * batch * steps * inputs);
}

TEST_CASE("step work: the values that passes touch, by hand") {
  // 64 channels: even. The first pool sees 16 x 16, the norm 8 x 8.
  const ModelSpec spec =
      model_of({3, 16, 16},
               {Conv2d{.channels = 64, .kernel = 3, .padding = 1}, Relu{},
                MaxPool2d{.kernel = 2, .stride = 2}, LocalResponseNorm{}, Dense{10}},
               10);
  const double batch = 4;
  CHECK(operations_of(spec, 4, KernelKind::Pool) == batch * 64 * (16 * 16 + 8 * 8));
  CHECK(operations_of(spec, 4, KernelKind::Norm) == batch * 64 * 8 * 8);
  CHECK(operations_of(spec, 4, KernelKind::Relu) == 0);  // part of the convolution
  CHECK(operations_of(spec, 4, KernelKind::Loss) == batch * 10);
  CHECK(operations_of(spec, 4, KernelKind::Gather) == batch * 3 * 16 * 16);
  CHECK(operations_of(spec, 4, KernelKind::Update) == 64 * 28 + 10 * (64 * 64 + 1));
  CHECK(operations_of(spec, 4, KernelKind::UnevenConvolution) == 0);
  const auto work = step_work(spec, 4);
  REQUIRE(work.size() == spec.layers.size() + kStepParts + 1);
  CHECK(work[0].name == "conv 64 3x3");
  CHECK(work[spec.layers.size() + static_cast<std::size_t>(StepPart::Loss)].name == "loss");
}

TEST_CASE("step time: a device of one rate takes the time that arithmetic gives") {
  const double operations = 4e9, values = 5e8;
  const DeviceRates device = even_device(operations, values, 1e10);
  const ModelSpec mlp = make_model({.kind = "mlp", .hidden = {64}}, {1, 28, 28}, 10).value();
  const double batch = 32, parameters = 784 * 64 + 64 + 64 * 10 + 10;
  const double products = 2 * batch * (2 * 784 * 64 + 3 * 64 * 10);
  const double passes = batch * (64 + 10) + batch * 10 + parameters + batch * 784;
  const double seconds = products / operations + passes / values;
  CHECK(predict_step(device, mlp, 32) == doctest::Approx(seconds).epsilon(1e-9));

  DeviceRates limited = device;
  limited.share = 0.25;
  CHECK(predict_step(limited, mlp, 32) == doctest::Approx(4 * seconds).epsilon(1e-9));

  // No kernel is faster than a call: 5 products, 2 biases, loss, update and samples.
  DeviceRates slow_calls = device;
  slow_calls.call_seconds = 1;
  CHECK(predict_step(slow_calls, mlp, 32) == doctest::Approx(10).epsilon(1e-9));
}

TEST_CASE("step time: bytes that have no room near the processor cost the difference") {
  // Operations and values take no time; a large set moves at a tenth of the speed of a small one.
  DeviceRates device = even_device(1e30, 1e30, 1e9);
  device.copies = {{1e3, 1e9}, {1e12, 1e8}};
  const ModelSpec svm = make_model({.kind = "svm", .hidden = {}}, {1000, 1, 1}, 1000).value();
  const double weights = 4 * (1000 * 1000 + 1000), sample = 4 * 1000;
  const auto moved = [&](double bytes, double near_by) {
    return bytes / copy_rate(device.copies, near_by / 2);
  };
  const double step = 3 * weights + 3 * sample;
  const double product = weights + 2 * sample, update = 5 * weights, bias = 3 * sample;
  const double seconds =
      2 * (moved(product, step) - moved(product, product)) + moved(bias, step) - moved(bias, bias);
  // The update has more bytes than the step: it moved them as slowly when it was measured.
  CHECK(update > step);
  CHECK(seconds > 0);
  CHECK(predict_step(device, svm, 1) == doctest::Approx(seconds).epsilon(1e-6));
  device.copies = {{1e3, 1e8}};
  CHECK(predict_step(device, svm, 1) < 1e-15);
}

TEST_CASE("rates: a measured size has its own, others those of the nearest") {
  const std::vector<KernelRate> measured{{{10, 10, 1, 1}, 1e9}, {{1000, 10, 1, 1}, 8e9}};
  CHECK(rate_near(measured, 2, {10, 10, 1, 1}) == doctest::Approx(1e9).epsilon(1e-3));
  CHECK(rate_near(measured, 2, {1000, 10, 1, 1}) == doctest::Approx(8e9).epsilon(1e-3));
  CHECK(rate_near(measured, 2, {100, 10, 1, 1}) == doctest::Approx(std::sqrt(8.0) * 1e9));
  CHECK(rate_near(measured, 2, {1e6, 10, 1, 1}) > 5e9);
  CHECK(rate_near(measured, 2, {1e6, 10, 1, 1}) < 8e9);
  CHECK(copy_rate({{1024, 1e9}, {1 << 20, 4e9}}, 1 << 15) == doctest::Approx(2e9));
}

TEST_CASE("layer clock: the parts of a step add up to the step, and others take none of it") {
  const ModelSpec spec = make_model({.kind = "lenet", .hidden = {}}, {1, 28, 28}, 10).value();
  CpuDevice device;
  REQUIRE(device.build(spec, 32).has_value());
  device.load(initial_parameters(spec, 1));
  const std::vector<float> inputs(32 * 784, 0.5f);
  const std::vector<std::int32_t> labels(32, 1);
  LayerClock clock(spec.layers.size());
  device.set_clock(&clock);
  device.step({inputs, labels, 32}, 0.01f);
  clock.take();
  const Instant from = thread_now();
  device.step({inputs, labels, 32}, 0.01f);
  const double step = (thread_now() - from).seconds();
  const auto parts = clock.take();
  REQUIRE(parts.size() == spec.layers.size() + kStepParts);
  double sum = 0;
  for (const double part : parts) sum += part;
  CHECK(sum <= step);
  CHECK(sum > 0.9 * step);
  CHECK(parts[0] > 0);   // a convolution
  CHECK(parts[5] == 0);  // the ReLU is part of the dense layer before
  device.set_clock(nullptr);
  device.step({inputs, labels, 32}, 0.01f);
  for (const double part : clock.take()) CHECK(part == 0);
}

}  // namespace rubato::train::step_time_tests
