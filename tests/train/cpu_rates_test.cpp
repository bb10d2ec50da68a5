// One round of measuring this machine. A step of a model is set beside its prediction.
#include "train/cpu/cpu_rates.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <stop_token>

#include "base/thread_time.hpp"
#include "train/cpu/cpu_device.hpp"

namespace rubato::train::cpu_rates_tests {
namespace {

// The least processor time of a few steps.
double measured_step(const ModelSpec& spec, int batch) {
  CpuDevice device;
  REQUIRE(device.build(spec, batch).has_value());
  device.load(initial_parameters(spec, 1));
  const std::vector<float> inputs(static_cast<std::size_t>(batch) * spec.input.count(), 0.5f);
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(batch), 1);
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step < 8; ++step) {
    const Instant from = thread_now();
    device.step({inputs, labels, batch}, 1e-4f);
    least = std::min(least, (thread_now() - from).seconds());
  }
  return least;
}

}  // namespace

TEST_CASE("rates: every kernel is measured, and steps are as long as predicted, but for a half") {
  const auto rates = measure_rates({.rounds = 1});
  REQUIRE(rates.has_value());
  CHECK(rates->threads == 1);
  CHECK(rates->share > 0);
  CHECK(rates->share <= 1);
  CHECK(rates->call_seconds > 0);
  CHECK(rates->call_seconds < 1e-3);
  CHECK(rates->copies.size() >= 5);
  for (std::size_t kind = 0; kind < kKernelKinds; ++kind) {
    CAPTURE(kernel_name(static_cast<KernelKind>(kind)).name);
    REQUIRE_FALSE(rates->kernels[kind].empty());
    for (const KernelRate& one : rates->kernels[kind]) CHECK(one.rate > 0);
  }
  // Sizes that were not measured.
  const ModelSpec models[] = {
      make_model({.kind = "mlp", .hidden = {200}}, {1, 28, 28}, 10).value(),
      make_model({.kind = "cnn", .hidden = {}}, {3, 24, 24}, 10).value(),
      make_model({.kind = "lenet", .hidden = {}}, {1, 28, 28}, 10).value(),
      make_model({.kind = "lstm", .hidden = {48, 20}}, {1, 20, 12}, 6).value()};
  for (const ModelSpec& spec : models) {
    CAPTURE(spec.name);
    DeviceRates whole = *rates;
    whole.share = 1;  // processor time has no quota
    CHECK(predict_step(whole, spec, 48) == doctest::Approx(measured_step(spec, 48)).epsilon(0.5));
  }
}

TEST_CASE("rates: measuring stops when it is asked to") {
  std::stop_source stop;
  stop.request_stop();
  const auto rates = measure_rates({}, stop.get_token());
  REQUIRE_FALSE(rates.has_value());
  CHECK(rates.error().code == ErrorCode::Stopped);
}

}  // namespace rubato::train::cpu_rates_tests
