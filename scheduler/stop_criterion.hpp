// scheduler/stop_criterion.hpp - when a run is over: the moving mean of the last evaluations
// reaches a target, or the time or the steps reach a limit.
// The protocol is fair: all sync models have the same target, and a moving mean of 5 evaluations
// must cross it. Pure. Units: seconds since training started.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/task.hpp"

namespace rubato::scheduler {

inline constexpr std::size_t kSmoothedEvaluations = 5;

struct StopOptions {
  std::optional<double> target_loss = {};  // mean loss <= target
  std::optional<double> target_accuracy =
      {};                           // of accuracy or R^2, mean >= target; all that are given hold
  ClassTargets class_targets = {};  // of recall, F1 and AUC, mean >= target
  std::optional<double> max_seconds = {};
  std::optional<std::uint64_t> max_steps = {};  // of all workers together

  bool has_target() const { return target_loss || target_accuracy || class_targets.any(); }
};

class StopCriterion {
 public:
  // `task`: names the figure beside the loss, which is R^2 in a regression.
  explicit StopCriterion(const StopOptions& options, Task task = Task::Classification)
      : options_(options), task_(task) {}

  // Returns: why the run is over, or empty.
  std::optional<std::string> on_evaluation(double seconds, double loss, double accuracy,
                                           const ClassFigures& classes = {});
  std::optional<std::string> on_progress(double seconds, std::uint64_t steps) const;

  // Mean loss of the last evaluations: kSmoothedEvaluations of them, or all if there are fewer.
  double smoothed_loss() const;
  // Mean accuracy of those evaluations. NaN where it was not measured.
  double smoothed_accuracy() const;
  ClassFigures smoothed_classes() const;
  const std::optional<double>& time_to_target() const { return time_to_target_; }

 private:
  struct Point {
    double loss;
    double accuracy;
    ClassFigures classes;
  };
  // Of value(point).
  template <class F>
  double mean(F value) const;

  StopOptions options_;
  Task task_;
  std::deque<Point> recent_;
  std::optional<double> time_to_target_;
};

}  // namespace rubato::scheduler
