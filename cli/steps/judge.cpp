#include "cli/steps/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/calibration.hpp"
#include "report/comparison.hpp"

namespace rubato::cli::steps {
namespace {

constexpr std::size_t kProducts = static_cast<std::size_t>(train::KernelKind::Forward);

// A built-in model; a file may name others, which are not judged.
std::optional<train::ModelSpec> model_of(const std::string& kind) {
  auto spec = measured_model(kind);
  if (!spec) return std::nullopt;
  return *std::move(spec);
}

// Predicted steps, each computed once.
class Predictions {
 public:
  double of(const train::DeviceRates& rates, const std::string& kind, int batch) {
    const auto [at, fresh] = known_.try_emplace({&rates, kind, batch});
    if (fresh) at->second = train::predict_step(rates, *model_of(kind), batch);
    return at->second;
  }

 private:
  std::map<std::tuple<const train::DeviceRates*, std::string, int>, double> known_;
};

double ratio_of(Predictions& predictions, const train::DeviceRates& from,
                const train::DeviceRates& to, int batch, const std::string& without) {
  std::vector<double> ratios;
  for (const std::string& kind : measured_kinds())
    if (kind != without)
      ratios.push_back(predictions.of(to, kind, batch) / predictions.of(from, kind, batch));
  return report::median(std::move(ratios));
}

}  // namespace

double Judged::error() const {
  return std::abs(predicted / measured - 1);
}

std::optional<ErrorSummary> summary_of(const std::vector<Judged>& judged) {
  if (judged.empty()) return std::nullopt;
  std::vector<double> errors;
  std::set<std::string> devices;
  for (const Judged& one : judged) {
    errors.push_back(one.error());
    devices.insert(one.device);
  }
  ErrorSummary summary{.median = report::median(errors)};
  std::ranges::sort(errors);
  summary.nine_of_ten = errors[(errors.size() * 9 + 9) / 10 - 1];
  summary.count = errors.size();
  summary.devices = devices.size();
  return summary;
}

std::string error_text(const std::optional<ErrorSummary>& summary) {
  if (!summary) return "unknown: no measured step to judge by";
  return fmt::format("median {}, 9 of 10 below {} ({} on {}, each left out)",
                     percent_text(summary->median), percent_text(summary->nine_of_ten),
                     counted(summary->count, "step"), counted(summary->devices, "device"));
}

std::vector<Judged> by_own_rates(const std::vector<DeviceFile>& measured) {
  std::vector<Judged> all;
  for (const DeviceFile& device : measured)
    for (const StepRow& step : device.steps) {
      const auto spec = model_of(step.model);
      const train::DeviceRates* rates = device.with_threads(step.threads);
      if (!spec || !rates) continue;
      all.push_back({device.name, step.model, step.batch, step.threads, step.seconds,
                     train::predict_step(*rates, *spec, step.batch)});
    }
  return all;
}

double correction(const std::vector<Judged>& by_own_rates, const std::string& device,
                  const std::string& model) {
  std::vector<double> ratios;
  for (const Judged& other : by_own_rates)
    if (other.device != device && other.model != model)
      ratios.push_back(other.measured / other.predicted);
  return ratios.empty() ? 1.0 : report::median(std::move(ratios));
}

Peak peak_of(const train::DeviceRates& rates) {
  Peak peak;
  for (const train::KernelRate& one : rates.kernels[kProducts])
    peak.flops = std::max(peak.flops, one.rate);
  const auto largest = std::ranges::max_element(rates.copies, {}, &train::CopyRate::bytes);
  peak.copy = largest->rate;
  return {peak.flops * rates.share, peak.copy * rates.share};
}

std::optional<train::DeviceRates> rates_of_peak(const std::vector<DeviceFile>& measured,
                                                const Peak& peak, const std::string& device) {
  const train::DeviceRates* nearest = nullptr;
  double least = 0;
  for (const DeviceFile& file : measured) {
    if (file.name == device) continue;
    for (const train::DeviceRates& rates : file.rates) {
      const double distance = std::abs(std::log(peak_of(rates).flops / peak.flops));
      if (nearest && distance >= least) continue;
      nearest = &rates;
      least = distance;
    }
  }
  if (!nearest) return std::nullopt;
  const Peak from = peak_of(*nearest);
  train::DeviceRates rates = *nearest;
  rates.share = 1;
  const double operations = peak.flops / from.flops * nearest->share;
  const double values =
      (peak.copy > 0 ? peak.copy / from.copy : peak.flops / from.flops) * nearest->share;
  for (std::size_t kind = 0; kind < train::kKernelKinds; ++kind) {
    const bool by_values = train::kernel_name(static_cast<train::KernelKind>(kind)).values;
    for (train::KernelRate& one : rates.kernels[kind]) one.rate *= by_values ? values : operations;
  }
  for (train::CopyRate& one : rates.copies) one.rate *= values;
  rates.call_seconds /= values;
  return rates;
}

double time_ratio(const train::DeviceRates& from, const train::DeviceRates& to, int batch) {
  Predictions predictions;
  return ratio_of(predictions, from, to, batch, {});
}

std::vector<Judged> judge_rates(const std::vector<Judged>& by_own_rates) {
  std::vector<Judged> judged = by_own_rates;
  for (Judged& one : judged) one.predicted *= correction(by_own_rates, one.device, one.model);
  return judged;
}

std::vector<Judged> judge_peaks(const std::vector<DeviceFile>& measured,
                                const std::vector<Judged>& by_own_rates) {
  std::map<std::pair<std::string, int>, std::optional<train::DeviceRates>> known;
  std::vector<Judged> judged;
  for (Judged one : by_own_rates) {
    const auto device = std::ranges::find(measured, one.device, &DeviceFile::name);
    const auto [at, fresh] = known.try_emplace({one.device, one.threads});
    if (fresh)
      at->second = rates_of_peak(measured, peak_of(*device->with_threads(one.threads)), one.device);
    if (!at->second) continue;
    one.predicted = train::predict_step(*at->second, *model_of(one.model), one.batch) *
                    correction(by_own_rates, one.device, one.model);
    judged.push_back(std::move(one));
  }
  return judged;
}

std::vector<Judged> judge_ratios(const std::vector<DeviceFile>& measured) {
  Predictions predictions;
  std::vector<Judged> judged;
  for (const DeviceFile& to : measured)
    for (const DeviceFile& from : measured) {
      if (from.name == to.name) continue;
      for (const StepRow& step : to.steps) {
        const auto there = std::ranges::find_if(from.steps, [&](const StepRow& other) {
          return other.model == step.model && other.batch == step.batch &&
                 other.threads == step.threads;
        });
        if (there == from.steps.end()) continue;
        const double ratio = ratio_of(predictions, *from.with_threads(step.threads),
                                      *to.with_threads(step.threads), step.batch, step.model);
        judged.push_back(
            {to.name, step.model, step.batch, step.threads, step.seconds, there->seconds * ratio});
      }
    }
  return judged;
}

}  // namespace rubato::cli::steps
