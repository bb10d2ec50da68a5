// train/regression_report.hpp - how good predicted numbers are, from a model's outputs.
// Pure. Units: those of the target, but for R^2 and the loss. Shapes: outputs, targets [samples].
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "train/model/input_schema.hpp"

namespace rubato::train {

inline constexpr std::size_t kWorstSamples = 10;
// The shares of samples below the residuals that a report names.
inline constexpr std::array<double, 7> kResidualShares = {0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};

struct RegressionReport {
  double loss = 0;  // as in training: mean squared error of the standardised targets, weighted
  double mse = 0;   // mean squared error
  double rmse = 0;  // its root
  double mae = 0;   // mean absolute error
  double r2 = 0;    // base/task.hpp; NaN where the targets do not vary
  // Predicted minus real: the least residual that is not below the share of all. The sample at
  // position ceil(share * samples) of the sorted ones; the least for 0.
  std::array<double, kResidualShares.size()> residuals = {};
  struct Sample {
    std::size_t sample = 0;  // from 0
    double target = 0;
    double predicted = 0;
  };
  std::vector<Sample> worst;  // the largest errors first, kWorstSamples at most
};

// `outputs`, `targets`: standardised, as a model gives them and a data set has them.
// `weights`: of the samples, or none; only the loss knows them.
// Requires: at least one sample, a schema with a target.
RegressionReport regression_report(const InputSchema& schema, std::span<const float> outputs,
                                   std::span<const double> targets,
                                   std::span<const float> weights = {});

}  // namespace rubato::train
