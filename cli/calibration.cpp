#include "cli/calibration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "base/cores.hpp"
#include "base/quote.hpp"
#include "base/rng.hpp"
#include "base/text.hpp"
#include "base/thread_time.hpp"
#include "base/utf8.hpp"
#include "cluster/device_catalog.hpp"
#include "train/data/dataset.hpp"
#include "train/local_trainer.hpp"

namespace rubato::cli {
namespace {

constexpr std::size_t kSamples = 4096;
constexpr int kWarmUpSteps = 5;
constexpr std::size_t kStepsMin = 10;
constexpr int kClasses = 10;

const std::map<std::string, train::Shape>& inputs() {
  static const std::map<std::string, train::Shape> kInputs = {
      {"cnn", {3, 32, 32}},  {"cnn1d", {1, 128, 9}}, {"lenet", {1, 28, 28}},
      {"lstm", {1, 28, 28}}, {"mlp", {1, 28, 28}},   {"svm", {1, 28, 28}}};
  return kInputs;
}

train::Dataset random_pixels(const train::Shape& shape) {
  Rng rng(1);
  train::Dataset data;
  data.shape = shape;
  data.classes = kClasses;
  std::vector<std::uint8_t> pixels(kSamples * static_cast<std::size_t>(shape.count()));
  for (auto& pixel : pixels) pixel = static_cast<std::uint8_t>(rng.below(256));
  data.features = std::move(pixels);
  data.pixel_scales.assign(static_cast<std::size_t>(shape.channels), {});
  for (std::size_t i = 0; i < kSamples; ++i)
    data.labels.push_back(static_cast<std::int32_t>(rng.below(kClasses)));
  return data;
}

}  // namespace

std::vector<std::string> measured_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [kind, input] : inputs()) kinds.push_back(kind);
  return kinds;
}

Result<void> check_kind(const std::string& kind) {
  if (inputs().contains(kind)) return {};
  return fail(ErrorCode::BadInput,
              fmt::format("--model {}: there are {}", kind, fmt::join(measured_kinds(), ", ")));
}

namespace {

// A worker's own trainer of a built-in model, on random samples.
struct Training {
  train::ModelSpec spec;
  train::Dataset data;
  std::unique_ptr<train::LocalTrainer> trainer;
};

// Requires: a kind that is there.
Result<std::unique_ptr<Training>> make_training(const std::string& kind, int batch,
                                                const std::string& device,
                                                const train::DeviceOptions& options) {
  const train::Shape input = inputs().at(kind);
  train::ModelOptions model;
  model.kind = kind;
  auto training = std::make_unique<Training>();
  RUBATO_ASSIGN(training->spec, train::make_model(model, input, kClasses));
  RUBATO_ASSIGN(auto made, train::make_device(device, options));
  RUBATO_TRY(made->build(training->spec, batch));
  made->load(train::initial_parameters(training->spec, 1));
  training->data = random_pixels(input);
  std::vector<std::uint32_t> all(training->data.size());
  std::iota(all.begin(), all.end(), 0U);
  training->trainer = std::make_unique<train::LocalTrainer>(
      std::move(made), training->data, train::BatchSampler{std::move(all), Rng(1)}, batch,
      train::LearningRate{.initial = 1e-4});
  for (int i = 0; i < kWarmUpSteps; ++i) training->trainer->step();
  return training;
}

// The least processor time of one step within `time`, of 3 steps at least.
double least_of_steps(train::LocalTrainer& trainer, Duration time) {
  double least = std::numeric_limits<double>::infinity();
  const Instant begin = steady_now();
  for (int steps = 0; steps < 3 || steady_now() - begin < time; ++steps) {
    const Instant from = thread_now();
    trainer.step();
    least = std::min(least, (thread_now() - from).seconds());
  }
  return least;
}

// The same where a quota limits this process: the least processor time of a step, by the part of
// the clock's time that the thread had a core, in the best of three windows.
double least_with_quota(train::LocalTrainer& trainer) {
  constexpr Duration kWindow = Duration::from_ms(500);  // longer than the periods of quotas
  double least = std::numeric_limits<double>::infinity(), share = 0;
  for (int window = 0; window < 3; ++window) {
    const Instant begin = steady_now(), computed = thread_now();
    least = std::min(least, least_of_steps(trainer, kWindow));
    share = std::max(share, (thread_now() - computed).seconds() / (steady_now() - begin).seconds());
  }
  return least / share;
}

}  // namespace

Result<train::ModelSpec> measured_model(const std::string& kind) {
  RUBATO_TRY(check_kind(kind));
  train::ModelOptions model;
  model.kind = kind;
  return train::make_model(model, inputs().at(kind), kClasses);
}

Result<MeasuredStep> measure_step(const std::string& kind, int batch, const std::string& device,
                                  Duration time, const train::DeviceOptions& options) {
  RUBATO_TRY(check_kind(kind));
  RUBATO_ASSIGN(const auto training, make_training(kind, batch, device, options));
  std::vector<double> steps;
  const Instant begin = steady_now();
  for (Instant now = begin; steps.size() < kStepsMin || now - begin < time;) {
    training->trainer->step();
    const Instant end = steady_now();
    steps.push_back((end - now).seconds());
    now = end;
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::ranges::nth_element(steps, middle);
  return MeasuredStep{kind, std::move(training->spec), batch, *middle};
}

Result<double> measure_least_step(const std::string& kind, int batch, int threads, Duration time) {
  RUBATO_TRY(check_kind(kind));
  const train::DeviceOptions options{.measure = true};
  std::vector<std::unique_ptr<Training>> all;
  for (int i = 0; i < threads; ++i) {
    RUBATO_ASSIGN(auto training, make_training(kind, batch, "cpu", options));
    all.push_back(std::move(training));
  }
  std::vector<std::jthread> beside;
  for (std::size_t i = 1; i < all.size(); ++i)
    beside.emplace_back([trainer = all[i]->trainer.get()](const std::stop_token& stop) {
      while (!stop.stop_requested()) trainer->step();
    });
  const auto quota = core_quota();
  return quota && *quota < threads ? least_with_quota(*all[0]->trainer)
                                   : least_of_steps(*all[0]->trainer, time);
}

std::string catalog_row(const std::string& name, const std::string& source,
                        const MeasuredStep& step) {
  const double gflops = cluster::training_flops(step.spec, step.batch) / step.seconds / 1e9;
  return fmt::format("[[devices]]\nname = {}\ngflops = {:.9g}\nefficiency = 1.0\nsource = {}\n",
                     toml_text(printable(name)), gflops, toml_text(printable(source)));
}

std::string link_row(const std::string& name, const std::string& source,
                     const cluster::LinkModel& link) {
  return fmt::format(
      "[[links]]\nname = {}\nlatency_seconds = {:.4g}\nlink_jitter = {:.3g}\nup_mbps = {:.4g}\n"
      "down_mbps = {:.4g}\nsource = {}\n",
      toml_text(printable(name)), link.latency_seconds, link.jitter,
      link.up_bytes_per_second * 8e-6, link.down_bytes_per_second * 8e-6,
      toml_text(printable(source)));
}

}  // namespace rubato::cli
