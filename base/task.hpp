// base/task.hpp - what a model learns, and the figure beside the loss by which people judge it.
// This is the one place that names the figure. Records call it `accuracy`, whatever the task.
// R^2 = 1 - (mean squared error) / (variance of the targets): 1 is perfect, 0 is as good as the
// mean of the targets, and below 0 is worse. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace rubato {

enum class Task : std::uint8_t { Classification, Regression };

struct Figure {
  const char* title;  // of a column
  const char* word;   // in a sentence
  const char* key;    // in files
  bool percent;       // a share, shown in percent
};

constexpr Figure figure_of(Task task) {
  return task == Task::Classification ? Figure{"Accuracy", "accuracy", "accuracy", true}
                                      : Figure{"R^2", "R^2", "r2", false};
}

// Figures of a classifier beside its accuracy, which says little of rare classes. NaN: not
// measured, or not defined.
struct ClassFigures {
  double recall = std::numeric_limits<double>::quiet_NaN();  // of the class with the lowest
  double f1 = std::numeric_limits<double>::quiet_NaN();      // mean over the classes
  double auc = std::numeric_limits<double>::quiet_NaN();     // mean; each class against the rest
};

// What a run is to reach of them.
struct ClassTargets {
  std::optional<double> recall = {};
  std::optional<double> f1 = {};
  std::optional<double> auc = {};
  bool any() const { return recall || f1 || auc; }
};

struct ClassFigure {
  const char* word;  // in a sentence
  const char* key;   // in files
  double ClassFigures::*value;
  std::optional<double> ClassTargets::*target;
};
inline constexpr std::array<ClassFigure, 3> kClassFigures{
    {{"lowest recall", "recall", &ClassFigures::recall, &ClassTargets::recall},
     {"F1", "f1", &ClassFigures::f1, &ClassTargets::f1},
     {"AUC", "auc", &ClassFigures::auc, &ClassTargets::auc}}};

// Whether the figures reach the targets. One that was not measured reaches none.
constexpr bool reaches(const ClassFigures& figures, const ClassTargets& targets) {
  for (const ClassFigure& figure : kClassFigures)
    if (const auto& target = targets.*figure.target; target && !(figures.*figure.value >= *target))
      return false;
  return true;
}

// `mean`, `mean_square`: of the targets that the error was measured on. Returns: NaN where they do
// not vary, as of a single one: nothing can be said then.
constexpr double r_squared(double mean_squared_error, double mean, double mean_square) {
  const double variance = mean_square - mean * mean;
  // What rounding leaves of the variance of equal targets is none.
  return variance > 1e-12 * mean_square ? 1 - mean_squared_error / variance
                                        : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace rubato
