#include "train/regression_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/check.hpp"

namespace rubato::train {

RegressionReport regression_report(const InputSchema& schema, std::span<const float> outputs,
                                   std::span<const double> targets,
                                   std::span<const float> weights) {
  RUBATO_CHECK(schema.target && !targets.empty() && outputs.size() == targets.size(),
               "one output a sample with a target");
  const auto count = static_cast<double>(targets.size());
  RegressionReport report;
  std::vector<RegressionReport::Sample> samples;
  std::vector<double> residuals;
  double squared_error = 0, mean = 0, mean_square = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double error = outputs[i] - targets[i];
    const double residual = error / schema.target->scale;
    squared_error += error * error / count;
    report.loss += (weights.empty() ? 1.0 : weights[i]) * error * error / count;
    report.mse += residual * residual / count;
    report.mae += std::abs(residual) / count;
    mean += targets[i] / count;
    mean_square += targets[i] * targets[i] / count;
    residuals.push_back(residual);
    samples.push_back({i, schema.predicted(targets[i]), schema.predicted(outputs[i])});
  }
  report.rmse = std::sqrt(report.mse);
  report.r2 = r_squared(squared_error, mean, mean_square);
  // A model that diverged gives NaN, which counts as the largest error.
  const auto size = [&](const RegressionReport::Sample& s) {
    const double error = std::abs(residuals[s.sample]);
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  };
  const std::size_t kept = std::min(kWorstSamples, samples.size());
  std::ranges::partial_sort(samples, samples.begin() + static_cast<std::ptrdiff_t>(kept),
                            std::greater(), size);
  samples.resize(kept);
  report.worst = std::move(samples);
  std::ranges::sort(residuals, {}, [](double r) {
    return std::isnan(r) ? std::numeric_limits<double>::infinity() : r;
  });
  for (std::size_t i = 0; i < kResidualShares.size(); ++i) {
    const auto position = static_cast<std::size_t>(std::ceil(kResidualShares[i] * count));
    report.residuals[i] = residuals[std::max<std::size_t>(position, 1) - 1];
  }
  return report;
}

}  // namespace rubato::train
