// train/step_time.hpp - how long a training step takes on a device that is only described. Each
// kernel runs at the rate of the measured ones that are nearest in size. Those that were measured
// alone had their bytes near the processor. In a step the bytes come from where the whole step has
// room, so the difference of both copy rates is added. Nothing is fitted.
// Pure. Units: seconds; work is operations or values, as train/model/step_work.hpp counts it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "train/model/step_work.hpp"

namespace rubato::train {

// One measured kernel.
struct KernelRate {
  KernelSizes sizes = {1, 1, 1, 1};
  double rate = 0;  // work a second
};

struct CopyRate {
  double bytes = 0;  // copied; as many are read as written
  double rate = 0;   // bytes read and written a second
};

// What one thread of a device can do while so many compute.
struct DeviceRates {
  int threads = 1;
  // Of the time, that the thread has a core: less than 1 where a quota limits it.
  double share = 1;
  double call_seconds = 0;  // of the smallest kernel: no kernel is faster
  std::array<std::vector<KernelRate>, kKernelKinds> kernels;  // by KernelKind
  std::vector<CopyRate> copies;                               // one at least
};

// Work a second at these sizes: the mean of the logarithms of what was measured, by the sixth power
// of the distance in the logarithms of the sizes. So a measured size has its own rate, and one
// beyond all of them about that of the nearest. Requires: one rate at least.
double rate_near(const std::vector<KernelRate>& measured, std::size_t sizes, const KernelSizes& at);

// Bytes a second where so many are used again and again.
double copy_rate(const std::vector<CopyRate>& measured, double bytes);

struct LayerTime {
  std::string name;
  double seconds = 0;
  double operations = 0;
  double bytes = 0;
};

// One entry for each of step_work(). Requires: rates of every kind of kernel in the model.
std::vector<LayerTime> predict_layers(const DeviceRates& device, const ModelSpec& spec, int batch);
double predict_step(const DeviceRates& device, const ModelSpec& spec, int batch);

}  // namespace rubato::train
