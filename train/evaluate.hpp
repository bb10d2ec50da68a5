// train/evaluate.hpp - mean loss, accuracy or R^2, and scores of a device's parameters on a data
// set.
#pragma once

#include <cstddef>
#include <vector>

#include "base/task.hpp"
#include "train/data/dataset.hpp"
#include "train/device.hpp"

namespace rubato::train {

// A good batch_max for a device that only evaluates.
inline constexpr int kEvaluationBatch = 250;

struct EvaluationResult {
  double loss = 0;      // mean, weighted as in training
  double accuracy = 0;  // share of correct predictions; regression: R^2 (base/task.hpp)
  // Regression: mean squared error, which knows no weights, and mean and mean square of the
  // targets. They give R^2, and their means over several boxes give the R^2 of all samples
  // together.
  double squared_error = 0;
  double target_mean = 0;
  double target_square = 0;
  ClassFigures classes = {};  // where they were asked for
};

// AndClasses: of a classifier also its ClassFigures, which takes a sort for each class.
enum class Measure { LossAndAccuracy, AndClasses };

// Over `samples_max` samples spread evenly over the data; 0: all of them.
// Requires: a built device, data that is not empty.
EvaluationResult evaluate(Device& device, const Dataset& data, std::size_t samples_max = 0,
                          Measure measure = Measure::LossAndAccuracy);

// Returns: [samples, classes] row-major, what the last layer gives for every sample.
// Requires: as evaluate().
std::vector<float> all_scores(Device& device, const Dataset& data);

}  // namespace rubato::train
