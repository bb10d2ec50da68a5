// train/class_report.hpp - how good a classifier is, class by class, from its scores.
// AUC: how often a sample of the class has a higher score than one of the others, where a tie
// counts half (Mann, Whitney 1947). The score is the log of the odds that softmax gives the class.
// With two classes both have one AUC. Pure. Shapes: scores [samples, classes] row-major; labels
// [samples].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/task.hpp"
#include "train/model/model_spec.hpp"

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
    double f1 = 0;   // 2 correct / (predicted as it + its samples); NaN: there are none of both
    double auc = 0;  // NaN: it has no sample, or all
  };
  std::vector<PerClass> classes;
  std::size_t worst = 0;  // the class of the lowest recall among those that have samples
  // Means over the classes that have the figure.
  double balanced_accuracy = 0;  // of recall
  double f1 = 0;
  double auc = 0;

  ClassFigures figures() const { return {classes[worst].recall, f1, auc}; }
};

// Requires: at least one sample; labels within the classes. class_weights: as in ModelSpec;
// `weights`: of the samples, or none. Only the loss knows both.
ClassReport class_report(Loss loss, std::span<const float> scores,
                         std::span<const std::int32_t> labels, int classes,
                         std::span<const float> class_weights = {},
                         std::span<const float> weights = {});

// out <- probabilities of one sample by softmax, or its scores where the loss is the hinge.
void to_shown_scores(Loss loss, std::span<float> scores);

}  // namespace rubato::train
