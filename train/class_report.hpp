// train/class_report.hpp - how good a classifier is, class by class, from its scores.
// Pure. Shapes: scores [samples, classes] row-major; labels [samples].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/model_spec.hpp"

namespace rubato::train {

struct ClassReport {
  double loss = 0;      // mean
  double accuracy = 0;  // share of correct predictions
  // [classes, classes] row-major: samples of class `row` that were predicted as class `column`.
  std::vector<std::uint64_t> confusion;
  struct PerClass {
    std::uint64_t samples = 0;
    double precision = 0;  // share of correct ones among those predicted as it; NaN: there are none
    double recall = 0;     // share of its samples that were predicted as it; NaN: it has none
  };
  std::vector<PerClass> classes;
  std::size_t worst = 0;  // the class of the lowest recall among those that have samples
};

// Requires: at least one sample; labels within the classes.
ClassReport class_report(Loss loss, std::span<const float> scores,
                         std::span<const std::int32_t> labels, int classes);

// out <- probabilities of one sample by softmax, or its scores where the loss is the hinge.
void to_shown_scores(Loss loss, std::span<float> scores);

}  // namespace rubato::train
