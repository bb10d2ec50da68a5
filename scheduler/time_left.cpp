#include "scheduler/time_left.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rubato::scheduler {
namespace {

// Judged on curves of real and virtual runs (tests/scheduler/time_left_test.cpp).
constexpr std::size_t kPointsMin = 15;
constexpr std::size_t kPointsMax = 256;  // that a line goes through
constexpr double kLaterShare = 0.6;      // of the curve that a line goes through
// A line is believed if those of the past, without the last tenths of the curve, lead to the same
// time. What they leave may differ by this factor.
constexpr std::array kPastShares = {0.9, 0.8, 0.7};
constexpr double kAgreement = 1.7;
constexpr double kReach = 3;  // of the time so far: a line is not believed further ahead
// A limit is the end of the run, where nothing is known of the target, when so much of it is over.
constexpr double kNearLimit = 0.9;
constexpr std::uint64_t kStepsShare = 50;  // 1 / the share of max_steps that tells the pace

using Curve = std::span<const EvaluationRecord>;

// When the line comes to `target`. Empty: never.
template <class Figure>
std::optional<double> meets(Curve curve, double target, Figure figure) {
  if (curve.size() < 2) return std::nullopt;
  const auto count = static_cast<std::size_t>(kLaterShare * static_cast<double>(curve.size()));
  const Curve later = curve.last(std::max<std::size_t>(count, 2));
  const std::size_t stride = 1 + later.size() / kPointsMax;
  double n = 0, x_mean = 0, y_mean = 0, xx = 0, xy = 0;
  for (std::size_t i = (later.size() - 1) % stride; i < later.size(); i += stride) {
    const double value = figure(later[i]);
    if (!std::isfinite(value) || !(value > 0) || !(later[i].seconds > 0)) return std::nullopt;
    const double x = std::log(later[i].seconds), y = std::log(value);
    n += 1;
    const double ahead = x - x_mean;
    x_mean += ahead / n;
    y_mean += (y - y_mean) / n;
    xx += ahead * (x - x_mean);
    xy += ahead * (y - y_mean);
  }
  if (!(xx > 0) || !(xy < 0)) return std::nullopt;
  const double at = std::exp(x_mean + (std::log(target) - y_mean) * xx / xy);
  // The target is judged by the mean of the last evaluations, which is late.
  const double interval =
      (later.back().seconds - later.front().seconds) / static_cast<double>(later.size() - 1);
  return at + static_cast<double>(kSmoothedEvaluations - 1) * interval;
}

// Seconds until `target` is reached. Empty: nobody can tell.
template <class Figure>
std::optional<double> time_to(Curve curve, double target, double seconds, Figure figure) {
  if (curve.size() < kPointsMin || !(target > 0)) return std::nullopt;
  const auto at = meets(curve, target, figure);
  if (!at || !(*at > seconds) || *at - seconds > kReach * seconds) return std::nullopt;
  const double left = *at - seconds;
  for (const double share : kPastShares) {
    const auto known = static_cast<std::size_t>(share * static_cast<double>(curve.size()));
    const auto before = meets(curve.first(known), target, figure);
    const double then = before ? *before - seconds : 0;
    if (then < left / kAgreement || then > left * kAgreement) return std::nullopt;
  }
  return left;
}

// Seconds until the limit of time or steps. Empty: there is none, or the pace is not known yet.
std::optional<double> time_to_limit(const StopOptions& stop, double seconds, std::uint64_t steps) {
  std::optional<double> left;
  if (stop.max_seconds) left = *stop.max_seconds - seconds;
  if (stop.max_steps && seconds > 0 && steps >= *stop.max_steps / kStepsShare + 1) {
    const double end = seconds * static_cast<double>(*stop.max_steps) / static_cast<double>(steps);
    left = std::min(left.value_or(end), end - seconds);
  }
  return left;
}

}  // namespace

std::optional<double> seconds_left(const StopOptions& stop, Curve curve, double seconds,
                                   std::uint64_t steps) {
  std::optional<double> left;
  bool known = true;
  const auto needs = [&](std::optional<double> until) {
    known = known && until;
    if (until) left = std::max(left.value_or(0), *until);
  };
  if (stop.target_loss)
    needs(time_to(curve, *stop.target_loss, seconds, [](const auto& point) { return point.loss; }));
  if (stop.target_accuracy)
    needs(time_to(curve, 1 - *stop.target_accuracy, seconds,
                  [](const auto& point) { return 1 - point.accuracy; }));
  for (const ClassFigure& figure : kClassFigures)
    if (const auto& target = stop.class_targets.*figure.target)
      needs(time_to(curve, 1 - *target, seconds,
                    [&](const auto& point) { return 1 - point.classes.*figure.value; }));
  const auto limit = time_to_limit(stop, seconds, steps);
  if (!known) {
    if (!limit || seconds < kNearLimit * (seconds + *limit)) return std::nullopt;
    left = limit;
  } else if (limit) {
    left = std::min(left.value_or(*limit), *limit);
  }
  if (!left || !(*left > 0)) return std::nullopt;
  return left;
}

}  // namespace rubato::scheduler
