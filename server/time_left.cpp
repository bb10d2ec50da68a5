#include "server/time_left.hpp"

#include <algorithm>
#include <cmath>

namespace rubato::server {
namespace {

constexpr std::size_t kPointsMin = 4;

// When the line through `curve`, of 1 / figure(point), comes to 1 / target. Empty: never.
template <class Figure>
std::optional<double> reaches(std::span<const EvaluationRecord> curve, double target,
                              Figure figure) {
  if (curve.size() < kPointsMin || !(target > 0)) return std::nullopt;
  const auto later = curve.last(std::max(kPointsMin, curve.size() / 2));
  double n = 0, t_mean = 0, y_mean = 0;
  for (const auto& point : later) {
    const double value = figure(point);
    if (!std::isfinite(value) || value <= 0) return std::nullopt;
    n += 1;
    t_mean += (point.seconds - t_mean) / n;
    y_mean += (1 / value - y_mean) / n;
  }
  double along = 0, across = 0;
  for (const auto& point : later) {
    along += (point.seconds - t_mean) * (point.seconds - t_mean);
    across += (point.seconds - t_mean) * (1 / figure(point) - y_mean);
  }
  if (!(along > 0) || !(across > 0)) return std::nullopt;
  return t_mean + (1 / target - y_mean) * along / across;
}

}  // namespace

std::optional<double> seconds_left(const StopOptions& stop, std::span<const EvaluationRecord> curve,
                                   double seconds, std::uint64_t steps) {
  std::optional<double> end;
  const auto by = [&end](double at) { end = std::min(end.value_or(at), at); };
  std::optional<double> loss_at, accuracy_at;
  if (stop.target_loss)
    loss_at = reaches(curve, *stop.target_loss, [](const auto& point) { return point.loss; });
  if (stop.target_accuracy)
    accuracy_at = reaches(curve, 1 - *stop.target_accuracy,
                          [](const auto& point) { return 1 - point.accuracy; });
  const bool known = stop.target_loss.has_value() == loss_at.has_value() &&
                     stop.target_accuracy.has_value() == accuracy_at.has_value();
  if (known && (loss_at || accuracy_at)) by(std::max(loss_at.value_or(0), accuracy_at.value_or(0)));
  if (stop.max_steps && steps > 0 && seconds > 0)
    by(seconds * static_cast<double>(*stop.max_steps) / static_cast<double>(steps));
  if (stop.max_seconds) by(*stop.max_seconds);
  if (!end) return std::nullopt;
  return std::max(0.0, *end - seconds);
}

}  // namespace rubato::server
