#include "train/step_time.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace rubato::train {
namespace {

// Of weights w_i and values v_i > 0: the mean of log v, back as a value.
class LogMean {
 public:
  void add(double weight, double value) {
    weights_ += weight;
    sum_ += weight * std::log(value);
  }
  double value() const { return std::exp(sum_ / weights_); }

 private:
  double weights_ = 0, sum_ = 0;
};

double weight_at(double squared_distance) {
  constexpr double kNear = 1e-4;  // a measured size counts for itself
  const double distance = squared_distance + kNear;
  return 1 / (distance * distance * distance);
}

}  // namespace

double rate_near(const std::vector<KernelRate>& measured, std::size_t sizes,
                 const KernelSizes& at) {
  RUBATO_CHECK(!measured.empty(), "a rate of a kernel that was never measured");
  LogMean mean;
  for (const KernelRate& one : measured) {
    double squared = 0;
    for (std::size_t i = 0; i < sizes; ++i) {
      const double difference = std::log2(at[i] / one.sizes[i]);
      squared += difference * difference;
    }
    mean.add(weight_at(squared), one.rate);
  }
  return mean.value();
}

double copy_rate(const std::vector<CopyRate>& measured, double bytes) {
  RUBATO_CHECK(!measured.empty(), "a device without a copy rate");
  LogMean mean;
  for (const CopyRate& one : measured) {
    const double difference = std::log2(bytes / one.bytes);
    mean.add(weight_at(difference * difference), one.rate);
  }
  return mean.value();
}

namespace {

// Whether the rates of a kind are those of kernels that ran again and again alone. The others ran
// in steps of models.
bool measured_alone(KernelKind kind) {
  switch (kind) {
    case KernelKind::Forward:
    case KernelKind::Weights:
    case KernelKind::Inputs:
    case KernelKind::Bias:
    case KernelKind::Update:
      return true;
    default:
      return false;
  }
}

double kernel_seconds(const DeviceRates& device, const Kernel& kernel, double step_bytes) {
  const double rate = rate_near(device.kernels[static_cast<std::size_t>(kernel.kind)],
                                kernel_name(kernel.kind).size_count(), kernel.sizes);
  double seconds = std::max(device.call_seconds, kernel.work / rate);
  if (measured_alone(kernel.kind)) {
    const double alone = kernel.bytes / copy_rate(device.copies, kernel.bytes / 2);
    const double in_step = kernel.bytes / copy_rate(device.copies, step_bytes / 2);
    seconds += std::max(0.0, in_step - alone);
  }
  return seconds;
}

}  // namespace

std::vector<LayerTime> predict_layers(const DeviceRates& device, const ModelSpec& spec, int batch) {
  const double bytes = step_bytes(spec, batch);
  std::vector<LayerTime> times;
  for (const LayerWork& layer : step_work(spec, batch)) {
    LayerTime time{.name = layer.name, .operations = layer.operations, .bytes = layer.bytes};
    for (const Kernel& kernel : layer.kernels)
      time.seconds += kernel_seconds(device, kernel, bytes);
    time.seconds /= device.share;
    times.push_back(std::move(time));
  }
  return times;
}

double predict_step(const DeviceRates& device, const ModelSpec& spec, int batch) {
  double seconds = 0;
  for (const LayerTime& layer : predict_layers(device, spec, batch)) seconds += layer.seconds;
  return seconds;
}

}  // namespace rubato::train
