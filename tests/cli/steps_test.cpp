// Device files, and predictions of devices whose times are known exactly.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "cli/calibration.hpp"
#include "cli/steps/device_file.hpp"
#include "cli/steps/judge.hpp"

namespace rubato::cli::steps::tests {
namespace {

train::DeviceRates even_rates(double operations, double values, double copied, int threads = 1) {
  train::DeviceRates rates;
  rates.threads = threads;
  for (std::size_t kind = 0; kind < train::kKernelKinds; ++kind)
    rates.kernels[kind] = {
        {{1, 1, 1, 1},
         train::kernel_name(static_cast<train::KernelKind>(kind)).values ? values : operations}};
  rates.copies = {{1024, copied}};
  return rates;
}

// A device whose steps take `longer` times what its rates say.
DeviceFile device_of(const std::string& name, double speed,
                     const std::function<double(const std::string& model)>& longer) {
  DeviceFile device{.name = name, .source = "made up", .rates = {even_rates(speed, speed, speed)}};
  for (const std::string& model : measured_kinds())
    device.steps.push_back(
        {model, 32, 1,
         longer(model) * train::predict_step(device.rates[0], measured_model(model).value(), 32)});
  return device;
}

double always_by_half(const std::string&) {
  return 1.5;
}

std::string message_of(const std::string& text) {
  const auto device = parse_device(text, "pi.toml");
  return device ? "" : device.error().message;
}

// Of a device file that is right, with the first `from` replaced.
std::string message_with(const std::string& from, const std::string& to) {
  DeviceFile device{.name = "pi", .source = "here", .rates = {even_rates(1e9, 1e9, 1e9)}};
  device.steps = {{"mlp", 32, 1, 0.001}};
  std::string text = device_text(device);
  REQUIRE(text.find(from) != text.npos);
  text.replace(text.find(from), from.size(), to);
  return message_of(text);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("device file: what is written is read again") {
  DeviceFile device{.name = "a \"box\" \\ [x]", .source = "two\nlines", .rates = {}};
  device.rates = {even_rates(1.25e9, 2e9, 3e9), even_rates(1e9, 2e9, 3e9, 2)};
  device.rates[0].kernels[0].push_back({{32, 64, 784, 1}, 5.5e10});
  device.rates[0].share = 0.5;
  device.rates[0].call_seconds = 1.5e-8;
  device.steps = {{"mlp", 32, 1, 8.5e-5}, {"cnn", 128, 2, 0.25}};
  const auto read = parse_device(device_text(device), "pi.toml");
  REQUIRE_MESSAGE(read.has_value(), read.error().message);
  CHECK(read->name == device.name);
  CHECK(read->source == "two?lines");
  REQUIRE(read->rates.size() == 2);
  CHECK(read->rates[0].share == 0.5);
  CHECK(read->rates[0].call_seconds == 1.5e-8);
  REQUIRE(read->rates[0].kernels[0].size() == 2);
  CHECK(read->rates[0].kernels[0][1].sizes == train::KernelSizes{32, 64, 784, 1});
  CHECK(read->rates[0].kernels[0][1].rate == doctest::Approx(5.5e10));
  CHECK(read->with_threads(2)->copies.at(0).rate == doctest::Approx(3e9));
  CHECK(read->with_threads(3) == nullptr);
  REQUIRE(read->steps.size() == 2);
  CHECK(read->steps[1].model == "cnn");
  CHECK(read->steps[1].threads == 2);
  CHECK(read->steps[1].seconds == 0.25);
}

TEST_CASE("device file: what is wrong is one line") {
  CHECK(message_with("name = \"pi\"", "") == "pi.toml:1: name: a device needs a name");
  CHECK(has(message_of("name = \"pi\"\n"), "a device needs its rates; rubato calibrate --save"));
  CHECK(has(message_with("\"1 1 1 1\"", "\"1 1 one 1\""),
            "\"1 1 one 1\" must be numbers above 0: samples, outputs, inputs, 10^9 operations"));
  CHECK(has(message_with("\"1 1 1 1\"", "\"1 1 1\""), "must be numbers above 0"));
  CHECK(has(message_with("\"1 1 1 1\"", "\"1 1 1 -1\""), "must be numbers above 0"));
  CHECK(has(message_with("\"1 1 1 1\"", "7"), "must be a list"));
  CHECK(has(message_with("\"1024 1\",", ""), "must have one measured rate at least"));
  CHECK(has(message_with("share = 1", "share = 2"), "share = 2"));
  CHECK(has(message_with("seconds = 0.001", "seconds = 0"), "seconds"));
  CHECK(has(message_with("\nthreads = 1", "\nthreads = 3"), "has no rates in [[threads]]"));
  CHECK(has(message_with("uneven-pool", "uneven-pol"), "unknown key"));
  CHECK(has(message_of("name = "), "pi.toml:1"));
  CHECK(message_with("pi", "po") == "");
}

TEST_CASE("judge: what all steps have in common is corrected, and no device corrects itself") {
  // Steps take half as long again as the rates say, on all devices.
  const std::vector<DeviceFile> all{device_of("a", 1e9, always_by_half),
                                    device_of("b", 3e9, always_by_half),
                                    device_of("c", 2e10, always_by_half)};
  CHECK(correction(by_own_rates(all), "a", "mlp") == doctest::Approx(1.5));
  const auto exact = summary_of(judge_rates(by_own_rates(all)));
  REQUIRE(exact.has_value());
  CHECK(exact->median < 1e-5);
  CHECK(exact->count == 18);
  CHECK(exact->devices == 3);

  // One device is three times slower than its rates: nothing of that is in its prediction.
  std::vector<DeviceFile> odd = all;
  odd[2] = device_of("c", 2e10, [](const std::string&) { return 4.5; });
  for (const Judged& one : judge_rates(by_own_rates(odd)))
    if (one.device == "c") CHECK(one.predicted == doctest::Approx(one.measured / 3).epsilon(1e-4));
  // And nothing of an odd model in the prediction of that model.
  std::vector<DeviceFile> model;
  for (const double speed : {1e9, 3e9})
    model.push_back(device_of(speed > 2e9 ? "b" : "a", speed,
                              [](const std::string& kind) { return kind == "svm" ? 6.0 : 1.5; }));
  for (const Judged& one : judge_rates(by_own_rates(model)))
    CHECK(one.error() == doctest::Approx(one.model == "svm" ? 0.75 : 0).epsilon(1e-4));
}

TEST_CASE("judge: a device of a published peak has the rates of the nearest one, at its speed") {
  const std::vector<DeviceFile> all{device_of("a", 1e9, always_by_half),
                                    device_of("b", 4e9, always_by_half)};
  const auto rates = rates_of_peak(all, {.flops = 8e9, .copy = 2e9});
  REQUIRE(rates.has_value());
  CHECK(rates->kernels[0][0].rate == doctest::Approx(8e9));  // operations: from b, twice
  CHECK(rates->copies[0].rate == doctest::Approx(2e9));      // bytes: from b, half
  CHECK(peak_of(*rates).flops == doctest::Approx(8e9));
  CHECK(peak_of(*rates).copy == doctest::Approx(2e9));
  // Without a copy rate memory is as fast beside the products as there.
  CHECK(rates_of_peak(all, {.flops = 8e9})->copies[0].rate == doctest::Approx(8e9));
  CHECK_FALSE(rates_of_peak({all[0]}, {.flops = 8e9}, "a").has_value());
  // Devices that differ by their speed alone are predicted exactly.
  const auto summary = summary_of(judge_peaks(all, by_own_rates(all)));
  REQUIRE(summary.has_value());
  CHECK(summary->nine_of_ten < 1e-4);
}

TEST_CASE("judge: half of a core by a quota is half of the speed") {
  train::DeviceRates limited = even_rates(4e9, 4e9, 4e9);
  limited.share = 0.5;
  CHECK(peak_of(limited).flops == doctest::Approx(2e9));
  const auto rates = rates_of_peak({{.name = "a", .source = "here", .rates = {limited}}},
                                   {.flops = 2e9, .copy = 2e9});
  REQUIRE(rates.has_value());
  const auto mlp = measured_model("mlp").value();
  CHECK(train::predict_step(*rates, mlp, 32) ==
        doctest::Approx(train::predict_step(limited, mlp, 32)));
}

TEST_CASE("judge: a step measured on one device is longer on a slower one by its speed") {
  const train::DeviceRates fast = even_rates(1e10, 1e10, 1e10), slow = even_rates(2e9, 2e9, 2e9);
  CHECK(time_ratio(fast, slow, 32) == doctest::Approx(5));
  const auto summary = summary_of(
      judge_ratios({device_of("a", 1e9, always_by_half), device_of("b", 3e9, always_by_half)}));
  REQUIRE(summary.has_value());
  CHECK(summary->count == 12);
  CHECK(summary->nine_of_ten < 1e-4);
}

TEST_CASE("judge: errors in words") {
  std::vector<Judged> judged;
  for (int i = 1; i <= 10; ++i)
    judged.push_back({i % 2 ? "a" : "b", "mlp", 32, 1, 1.0, 1 + 0.01 * i});
  CHECK(error_text(summary_of(judged)) ==
        "median 5.5 %, 9 of 10 below 9.0 % (10 steps on 2 devices, each left out)");
  CHECK(error_text(summary_of({})) == "unknown: no measured step to judge by");
}

}  // namespace rubato::cli::steps::tests
