// cli/steps/judge.hpp - predicted steps of devices that are only described, and how far off such
// predictions are: every device and every model that was measured is left out once, and predicted
// from the others.
// Three ways to a prediction: the rates of the device itself; published peak figures, with the
// rates of the measured device that is most like it; a step that was measured on another device.
// Pure. Units: seconds. Threads: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/steps/device_file.hpp"
#include "train/model/model_spec.hpp"

namespace rubato::cli::steps {

// A measured step beside its prediction.
struct Judged {
  std::string device;
  std::string model;
  int batch = 0;
  int threads = 1;
  double measured = 0;
  double predicted = 0;

  // Part of the measured time.
  double error() const;
};

struct ErrorSummary {
  double median = 0;
  double nine_of_ten = 0;  // as many are below
  std::size_t count = 0;
  std::size_t devices = 0;
};
// Nothing: there is no step to judge by.
std::optional<ErrorSummary> summary_of(const std::vector<Judged>& judged);
// "median 4 %, 9 of 10 below 12 % (96 steps on 8 devices, each left out)".
std::string error_text(const std::optional<ErrorSummary>& summary);

// Every measured step of a built-in model beside what the rates of its device predict.
std::vector<Judged> by_own_rates(const std::vector<DeviceFile>& measured);

// What steps took, by what was predicted: the median over all devices but `device` and all models
// but `model`; 1 where there are none. It corrects what every step has in common.
double correction(const std::vector<Judged>& by_own_rates, const std::string& device,
                  const std::string& model);

// One thread of a device in two figures.
struct Peak {
  double flops = 0;  // float32 operations a second in a large product
  double copy = 0;   // bytes read and written a second in a large copy; 0: unknown
};
Peak peak_of(const train::DeviceRates& rates);

// The rates of a device that has this peak: those of the measured one whose product is nearest,
// without `device`. Operations go by the products, values and bytes by the copies. Nothing: there
// is no other device.
std::optional<train::DeviceRates> rates_of_peak(const std::vector<DeviceFile>& measured,
                                                const Peak& peak, const std::string& device = {});

// How many times as long a step takes on `to` as on `from`: the median over the built-in models, at
// this batch.
double time_ratio(const train::DeviceRates& from, const train::DeviceRates& to, int batch);

// Every measured step, predicted without its device and its model.
std::vector<Judged> judge_rates(const std::vector<Judged>& by_own_rates);
std::vector<Judged> judge_peaks(const std::vector<DeviceFile>& measured,
                                const std::vector<Judged>& by_own_rates);
// From each other device on which it was measured with as many threads.
std::vector<Judged> judge_ratios(const std::vector<DeviceFile>& measured);

}  // namespace rubato::cli::steps
