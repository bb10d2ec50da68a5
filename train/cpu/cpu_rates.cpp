#include "train/cpu/cpu_rates.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/cores.hpp"
#include "base/rng.hpp"
#include "base/thread_time.hpp"
#include "train/cpu/cpu_device.hpp"
#include "train/cpu/one_thread.hpp"
#include "train/data/dataset.hpp"
#include "train/host_replica.hpp"

namespace rubato::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Duration kRunTime = Duration{30'000};  // the clock is read so often at most
constexpr Duration kTurn = Duration{400'000};    // of one kernel, in each round
constexpr int kRunsMin = 3;
constexpr double kMultipliedMax = 1 << 26;  // multiply-adds of a product; larger ones are no faster

// Seconds of one run: the least over some runs of kRunTime.
template <class Run>
double least_seconds(Run run) {
  run();
  int times = 1;
  for (;;) {
    const Instant from = thread_now();
    for (int i = 0; i < times; ++i) run();
    if (thread_now() - from >= kRunTime) break;
    times *= 2;
  }
  double least = kInfinity;
  const Instant begin = thread_now();
  Instant now = begin;
  for (int runs = 0; runs < kRunsMin || now - begin < kTurn; ++runs) {
    for (int i = 0; i < times; ++i) run();
    const Instant end = thread_now();
    least = std::min(least, (end - now).seconds() / times);
    now = end;
  }
  return least;
}

std::vector<float> random_floats(std::size_t count) {
  Rng rng(1);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.uniform() - 0.5);
  return values;
}

// The least time of each kernel so far.
class Measured {
 public:
  void note(KernelKind kind, const KernelSizes& sizes, double work, double seconds) {
    const auto [at, fresh] = least_.try_emplace({kind, sizes}, work, seconds);
    if (!fresh && seconds < at->second.second) at->second = {work, seconds};
  }
  void note_copy(double bytes, double seconds) {
    const auto [at, fresh] = copies_.try_emplace(bytes, seconds);
    if (!fresh) at->second = std::min(at->second, seconds);
  }
  void note_call(double seconds) { call_ = std::min(call_, seconds); }
  // This device cannot run a kernel.
  void refuse(const Error& error) { refused_ = error; }
  const std::optional<Error>& refused() const { return refused_; }

  DeviceRates rates() const {
    DeviceRates rates;
    rates.call_seconds = call_;
    for (const auto& [kernel, time] : least_)
      rates.kernels[static_cast<std::size_t>(kernel.first)].push_back(
          {kernel.second, time.first / time.second});
    for (const auto& [bytes, seconds] : copies_)
      rates.copies.push_back({bytes, 2 * bytes / seconds});
    return rates;
  }

 private:
  std::map<std::pair<KernelKind, KernelSizes>, std::pair<double, double>> least_;  // work, seconds
  std::map<double, double> copies_;
  double call_ = kInfinity;
  std::optional<Error> refused_;
};

// --- matrix products ----------------------------------------------------------------------------

Product product_of(KernelKind kind, const DenseProducts& sizes, const float* a, const float* b) {
  return kind == KernelKind::Forward   ? sizes.forward(a, b)
         : kind == KernelKind::Weights ? sizes.weights(a, b)
                                       : sizes.back(a, b);
}

void measure_products(Measured& measured, const std::stop_token& stop) {
  constexpr int kSamples[] = {1, 8, 32, 128, 512};
  constexpr int kOutputs[] = {2, 10, 32, 100, 320, 1000};
  constexpr int kInputs[] = {10, 32, 100, 320, 1000, 3200};
  const std::vector<float> a = random_floats(512 * 3200), b = random_floats(1000 * 3200);
  std::vector<float> c(1000 * 3200);
  for (const int samples : kSamples)
    for (const int outputs : kOutputs)
      for (const int inputs : kInputs) {
        const double multiplied = static_cast<double>(samples) * outputs * inputs;
        if (multiplied > kMultipliedMax || stop.stop_requested()) continue;
        for (const KernelKind kind :
             {KernelKind::Forward, KernelKind::Weights, KernelKind::Inputs}) {
          const Product product = product_of(kind, {samples, outputs, inputs}, a.data(), b.data());
          for (const Library library : {Library::OpenBlas, Library::OneDnn})
            measured.note(kind,
                          {static_cast<double>(samples), static_cast<double>(outputs),
                           static_cast<double>(inputs), 1},
                          2 * multiplied, least_seconds([&] {
                            multiply_by(library, {product, 0.0f, c.data(), product.n});
                          }));
        }
      }
  const Product smallest{
      .m = 1, .n = 1, .k = 1, .a = a.data(), .row_a = 1, .b = b.data(), .row_b = 1};
  for (const Library library : {Library::OpenBlas, Library::OneDnn})
    measured.note_call(least_seconds([&] { multiply_by(library, {smallest, 0.0f, c.data(), 1}); }));
}

// --- layers, on models made for that ------------------------------------------------------------

// The least time of each layer over some steps.
void measure_model(Measured& measured, const ModelSpec& spec, int batch) {
  CpuDevice device;
  if (const auto built = device.build(spec, batch); !built) return measured.refuse(built.error());
  device.load(initial_parameters(spec, 1));
  const auto inputs = random_floats(static_cast<std::size_t>(batch) * spec.input.count());
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<std::int32_t>(i) % spec.classes;
  LayerClock clock(spec.layers.size());
  std::vector<double> least(spec.layers.size() + kStepParts, kInfinity);
  const Batch samples{inputs, labels, batch};
  device.step(samples, 1e-6f);
  device.set_clock(&clock);
  const Instant begin = thread_now();
  for (int runs = 0; runs < kRunsMin || thread_now() - begin < kTurn * 5; ++runs) {
    device.step(samples, 1e-6f);
    const std::vector<double> taken = clock.take();
    for (std::size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], taken[i]);
  }
  const double lap = least_seconds([&] { clock.lap(StepPart::Layout); });
  const auto work = step_work(spec, batch);
  const std::size_t update = spec.layers.size() + static_cast<std::size_t>(StepPart::Update);
  for (std::size_t i = 0; i < update; ++i) {
    // The kernels of a dense layer are measured by themselves.
    if (work[i].kernels.size() != 1) continue;
    const Kernel& kernel = work[i].kernels.front();
    measured.note(kernel.kind, kernel.sizes, kernel.work, std::max(least[i] - lap, least[i] / 4));
  }
}

ModelSpec image_model(Shape input, std::vector<Layer> layers) {
  layers.emplace_back(Dense{10});
  return {.name = "measured", .input = input, .layers = std::move(layers), .classes = 10};
}

void measure_images(Measured& measured, const std::stop_token& stop) {
  const auto pool = [](int kernel) { return MaxPool2d{.kernel = kernel, .stride = 2}; };
  for (const int side : {8, 16, 32})
    for (const int kernel : {3, 5}) {
      if (stop.stop_requested()) return;
      const auto even = [&](int channels) {
        return Conv2d{.channels = channels, .kernel = kernel, .padding = kernel / 2};
      };
      const auto uneven = [&](int channels) {
        return Conv2d{.channels = channels, .kernel = kernel};
      };
      measure_model(measured,
                    image_model({1, side, side}, {even(16), Relu{}, even(16), even(64), Relu{},
                                                  even(64), Relu{}, LocalResponseNorm{}, pool(2)}),
                    16);
      measure_model(measured,
                    image_model({3, side, side}, {even(64), pool(3), Relu{}, LocalResponseNorm{},
                                                  even(32), Relu{}, even(16)}),
                    16);
      measure_model(measured,
                    image_model({3, side + kernel, side + kernel}, {uneven(20), Relu{}, pool(2)}),
                    32);
      measure_model(measured, image_model({1, side + kernel, side + kernel}, {uneven(20), pool(2)}),
                    32);
      measure_model(measured,
                    image_model({20, side + kernel, side + kernel},
                                {uneven(20), Relu{}, uneven(50), pool(2)}),
                    32);
    }
}

// Convolutions over time, as those of cnn1d: oneDNN computes planes of one column another way.
void measure_columns(Measured& measured, const std::stop_token& stop) {
  for (const int steps : {32, 96})
    for (const int features : {6, 16}) {
      if (stop.stop_requested()) return;
      const auto conv = [](int channels, int width) {
        return Conv2d{.channels = channels, .kernel = {5, width}, .padding = {2, 0}};
      };
      const MaxPool2d pool{.kernel = {2, 1}, .stride = {2, 1}};
      measure_model(measured,
                    image_model({1, steps, features}, {conv(32, features), Relu{}, pool,
                                                       conv(64, 1), Relu{}, pool, conv(64, 1)}),
                    32);
    }
}

void measure_sequences(Measured& measured, const std::stop_token& stop) {
  for (const int batch : {8, 32, 128})
    for (const int features : {1, 32, 128})
      for (const int units : {32, 128, 256})
        for (const int steps : {8, 32}) {
          if (stop.stop_requested()) return;
          measure_model(measured,
                        {.name = "measured",
                         .input = {1, steps, features},
                         .layers = {Lstm{units}, Dense{10}},
                         .classes = 10},
                        batch);
        }
}

void measure_losses(Measured& measured) {
  for (const Loss loss : {Loss::SoftmaxCrossEntropy, Loss::MultiClassHinge})
    for (const auto& [batch, classes] : {std::pair{8, 2}, {32, 10}, {128, 10}, {128, 100}})
      measure_model(measured,
                    {.name = "measured",
                     .input = {4, 1, 1},
                     .layers = {Dense{classes}},
                     .loss = loss,
                     .classes = classes},
                    batch);
}

// --- passes over memory -------------------------------------------------------------------------

void measure_bias(Measured& measured) {
  Multiplier multiplier;
  for (const auto& [samples, outputs] : {std::pair{8, 10}, {32, 64}, {128, 512}}) {
    const LayerPlan plan{.input = {1, 1, 1},
                         .output = {outputs, 1, 1},
                         .weight_offset = 0,
                         .weight_count = static_cast<std::uint64_t>(outputs),
                         .bias_offset = static_cast<std::uint64_t>(outputs),
                         .bias_count = static_cast<std::uint64_t>(outputs),
                         .fan_in = 1};
    DenseStage stage(plan, true, multiplier);
    const std::size_t count = static_cast<std::size_t>(samples) * outputs;
    const std::vector<float> parameters = random_floats(2 * static_cast<std::size_t>(outputs));
    const std::vector<float> input = random_floats(static_cast<std::size_t>(samples));
    std::vector<float> gradient(parameters.size()), output(count), output_gradient(count);
    const double whole = least_seconds([&] {
      stage.forward(parameters.data(), input.data(), output.data(), samples);
      stage.backward(parameters.data(), input.data(), output.data(), output_gradient.data(),
                     nullptr, gradient.data(), samples);
    });
    const DenseProducts sizes{samples, outputs, 1};
    const Product forward = sizes.forward(input.data(), parameters.data());
    const Product weights = sizes.weights(output_gradient.data(), input.data());
    const double products =
        least_seconds([&] { multiplier.multiply(forward, output.data(), forward.n); }) +
        least_seconds([&] { multiplier.multiply(weights, gradient.data(), weights.n); });
    const double values = static_cast<double>(count);
    measured.note(KernelKind::Bias, {values, 1, 1, 1}, values,
                  std::max(whole - products, whole / 4));
  }
}

void measure_update(Measured& measured) {
  for (const std::size_t count : {1000U, 10'000U, 100'000U, 1'000'000U, 4'000'000U}) {
    HostReplica replica(count);
    const std::vector<float> gradient = random_floats(count);
    const double values = static_cast<double>(count);
    measured.note(KernelKind::Update, {values, 1, 1, 1}, values,
                  least_seconds([&] { replica.descend(gradient, 1e-6f); }));
  }
}

void measure_gather(Measured& measured) {
  for (const auto& [samples, features] : {std::pair{32, 10}, {32, 784}, {128, 784}, {128, 3072}}) {
    constexpr std::size_t kSamples = 4096;
    Dataset data;
    data.shape = {1, 1, features};
    data.classes = 10;
    data.features = std::vector<std::uint8_t>(kSamples * static_cast<std::size_t>(features), 7);
    data.pixel_scales.assign(1, {});
    data.labels.assign(kSamples, 0);
    Rng rng(1);
    std::vector<std::uint32_t> indices(static_cast<std::size_t>(samples)), next(indices.size());
    const auto draw = [&](std::vector<std::uint32_t>& to) {
      for (auto& index : to) index = static_cast<std::uint32_t>(rng.below(kSamples));
    };
    draw(next);
    std::vector<float> inputs(indices.size() * static_cast<std::size_t>(features));
    std::vector<std::int32_t> labels(indices.size());
    const double values = static_cast<double>(inputs.size());
    measured.note(KernelKind::Gather, {values, 1, 1, 1}, values, least_seconds([&] {
                    indices.swap(next);
                    data.gather(indices, inputs, labels);
                    draw(next);
                    data.prefetch(next);
                  }));
  }
}

void measure_copies(Measured& measured) {
  for (const std::size_t bytes : {1U << 14, 1U << 17, 1U << 20, 1U << 22, 1U << 24, 1U << 26}) {
    const std::vector<float> from(bytes / sizeof(float), 1.0f);
    std::vector<float> to(from.size());
    measured.note_copy(static_cast<double>(bytes),
                       least_seconds([&] { std::ranges::copy(from, to.begin()); }));
  }
}

void measure_round(Measured& measured, const std::stop_token& stop) {
  const OneThread alone;
  measure_products(measured, stop);
  measure_images(measured, stop);
  measure_columns(measured, stop);
  measure_sequences(measured, stop);
  if (stop.stop_requested()) return;
  measure_losses(measured);
  measure_bias(measured);
  measure_update(measured);
  measure_gather(measured);
  measure_copies(measured);
}

}  // namespace

Result<DeviceRates> measure_rates(const RateOptions& options, const std::stop_token& stop) {
  Measured measured;
  for (int round = 0; round < options.rounds && !stop.stop_requested(); ++round) {
    {
      std::vector<std::jthread> beside;
      for (int i = 1; i < options.threads; ++i)
        beside.emplace_back([](const std::stop_token& end) {
          Measured nobody;
          while (!end.stop_requested()) measure_round(nobody, end);
        });
      measure_round(measured, stop);
    }
    if (options.between) RUBATO_TRY(options.between());
  }
  if (stop.stop_requested()) return fail(ErrorCode::Stopped, "interrupted");
  if (measured.refused()) return tl::unexpected(*measured.refused());
  DeviceRates rates = measured.rates();
  rates.threads = options.threads;
  if (const auto quota = core_quota()) rates.share = std::min(1.0, *quota / options.threads);
  return rates;
}

}  // namespace rubato::train
