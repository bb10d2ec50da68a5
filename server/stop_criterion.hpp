// server/stop_criterion.hpp - when a run is over: a target reached by the moving mean of the last
// evaluations, or a limit of time or steps.
// Source: the fair protocol of algorithms.md section 4: one threshold for all models, the first
// time a moving mean of 5 evaluations crosses it. Pure. Units: seconds since training started.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace rubato::server {

inline constexpr std::size_t kSmoothedEvaluations = 5;

struct StopOptions {
  std::optional<double> target_loss;      // mean loss <= target
  std::optional<double> target_accuracy;  // mean accuracy >= target; with both, both must hold
  std::optional<double> max_seconds;
  std::optional<std::uint64_t> max_steps;  // of all workers together
};

class StopCriterion {
 public:
  explicit StopCriterion(const StopOptions& options) : options_(options) {}

  // Returns: why the run is over, or empty.
  std::optional<std::string> on_evaluation(double seconds, double loss, double accuracy);
  std::optional<std::string> on_progress(double seconds, std::uint64_t steps) const;

  // Mean loss of the last evaluations, as many as there are up to kSmoothedEvaluations.
  double smoothed_loss() const;
  const std::optional<double>& time_to_target() const { return time_to_target_; }

 private:
  struct Point {
    double loss;
    double accuracy;
  };
  StopOptions options_;
  std::deque<Point> recent_;
  std::optional<double> time_to_target_;
};

}  // namespace rubato::server
