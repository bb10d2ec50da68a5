#include "server/stop_criterion.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/time.hpp"

namespace rubato::server {

std::optional<std::string> StopCriterion::on_evaluation(double seconds, double loss,
                                                        double accuracy) {
  recent_.push_back({loss, accuracy});
  if (recent_.size() > kSmoothedEvaluations) recent_.pop_front();
  if (recent_.size() < kSmoothedEvaluations || time_to_target_) return std::nullopt;
  if (!options_.target_loss && !options_.target_accuracy) return std::nullopt;

  const double accuracy_mean = smoothed_accuracy();
  // These comparisons are false for NaN, so NaN never reaches a target.
  const bool loss_reached = !options_.target_loss || smoothed_loss() <= *options_.target_loss;
  const bool accuracy_reached =
      !options_.target_accuracy || accuracy_mean >= *options_.target_accuracy;
  if (!loss_reached || !accuracy_reached) return std::nullopt;
  time_to_target_ = seconds;
  const auto reached = fmt::format("target reached: mean loss {:.4f}", smoothed_loss());
  if (std::isnan(accuracy_mean)) return reached;
  return fmt::format("{}, {} {:.4f}", reached, figure_of(task_).word, accuracy_mean);
}

std::optional<std::string> StopCriterion::on_progress(double seconds, std::uint64_t steps) const {
  // Rounded to whole nanoseconds, as the wake-up time is: at that wake-up the run must be over.
  if (options_.max_seconds && seconds >= Duration::from_seconds(*options_.max_seconds).seconds())
    return fmt::format("max_seconds {} reached", *options_.max_seconds);
  if (options_.max_steps && steps >= *options_.max_steps)
    return fmt::format("max_steps {} reached", *options_.max_steps);
  return std::nullopt;
}

double StopCriterion::smoothed_loss() const {
  return mean(&Point::loss);
}

double StopCriterion::smoothed_accuracy() const {
  return mean(&Point::accuracy);
}

double StopCriterion::mean(double Point::*value) const {
  if (recent_.empty()) return 0;
  double sum = 0;
  for (const auto& point : recent_) sum += point.*value;
  return sum / static_cast<double>(recent_.size());
}

}  // namespace rubato::server
