#include "scheduler/stop_criterion.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/time.hpp"

namespace rubato::scheduler {

std::optional<std::string> StopCriterion::on_evaluation(double seconds, double loss,
                                                        double accuracy,
                                                        const ClassFigures& classes) {
  recent_.push_back({loss, accuracy, classes});
  if (recent_.size() > kSmoothedEvaluations) recent_.pop_front();
  if (recent_.size() < kSmoothedEvaluations || time_to_target_) return std::nullopt;
  if (!options_.has_target()) return std::nullopt;

  const double accuracy_mean = smoothed_accuracy();
  // These comparisons are false for NaN, so NaN never reaches a target.
  const bool loss_reached = !options_.target_loss || smoothed_loss() <= *options_.target_loss;
  const bool accuracy_reached =
      !options_.target_accuracy || accuracy_mean >= *options_.target_accuracy;
  const ClassFigures classes_mean = smoothed_classes();
  if (!loss_reached || !accuracy_reached || !reaches(classes_mean, options_.class_targets))
    return std::nullopt;
  time_to_target_ = seconds;
  auto reached = fmt::format("target reached: mean loss {:.4f}", smoothed_loss());
  if (!std::isnan(accuracy_mean))
    reached += fmt::format(", {} {:.4f}", figure_of(task_).word, accuracy_mean);
  for (const ClassFigure& figure : kClassFigures)
    if (options_.class_targets.*figure.target)
      reached += fmt::format(", {} {:.4f}", figure.word, classes_mean.*figure.value);
  return reached;
}

std::optional<std::string> StopCriterion::on_progress(double seconds, std::uint64_t steps) const {
  // Rounded to whole nanoseconds, as the wake-up time is: at that wake-up the run must be over.
  if (options_.max_seconds && seconds >= Duration::from_seconds(*options_.max_seconds).seconds())
    return fmt::format("max_seconds {} reached", *options_.max_seconds);
  if (options_.max_steps && steps >= *options_.max_steps)
    return fmt::format("max_steps {} reached", *options_.max_steps);
  return std::nullopt;
}

template <class F>
double StopCriterion::mean(F value) const {
  if (recent_.empty()) return 0;
  double sum = 0;
  for (const auto& point : recent_) sum += value(point);
  return sum / static_cast<double>(recent_.size());
}

double StopCriterion::smoothed_loss() const {
  return mean([](const Point& point) { return point.loss; });
}

double StopCriterion::smoothed_accuracy() const {
  return mean([](const Point& point) { return point.accuracy; });
}

ClassFigures StopCriterion::smoothed_classes() const {
  ClassFigures means;
  for (const ClassFigure& figure : kClassFigures)
    means.*figure.value = mean([&](const Point& point) { return point.classes.*figure.value; });
  return means;
}

}  // namespace rubato::scheduler
