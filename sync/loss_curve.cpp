#include "sync/loss_curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"

namespace rubato::sync {
namespace {

// The best A >= 0 and b for a fixed c, and how far it is from the losses.
struct Candidate {
  LossCurve curve;
  double error = std::numeric_limits<double>::infinity();  // sum of squares, in loss
};

// Weights (l - c)^4 make the error of 1/(l - c) that of l, to first order.
Candidate fit_given_c(std::span<const LossSample> samples, double c) {
  double w = 0, wt = 0, wy = 0, wtt = 0, wty = 0;
  for (const auto& [t, loss] : samples) {
    const double gap = loss - c;
    const double weight = gap * gap * gap * gap;
    const double y = 1.0 / gap;
    w += weight;
    wt += weight * t;
    wy += weight * y;
    wtt += weight * t * t;
    wty += weight * t * y;
  }
  const double determinant = w * wtt - wt * wt;
  if (!(determinant > 0)) return {};
  const double a = std::max(0.0, (w * wty - wt * wy) / determinant);
  const double b = (wy - a * wt) / w;
  Candidate result{.curve = {.a = a, .b = b, .c = c}, .error = 0};
  for (const auto& [t, loss] : samples) {
    if (a * t + b <= 0) return {};
    const double miss = result.curve.at(t) - loss;
    result.error += miss * miss;
  }
  return result;
}

// Least squares of y(loss) against time.
struct Line {
  double slope = 0;
  double error = 0;  // standard error of slope
};

template <class Transform>
Line fit_line(std::span<const LossSample> samples, const Transform& y) {
  RUBATO_CHECK(samples.size() >= 3, "a slope and its error need three samples");
  const double n = static_cast<double>(samples.size());
  double t_mean = 0, y_mean = 0;
  for (const auto& [t, loss] : samples) {
    t_mean += t / n;
    y_mean += y(loss) / n;
  }
  double tt = 0, ty = 0;
  for (const auto& [t, loss] : samples) {
    tt += (t - t_mean) * (t - t_mean);
    ty += (t - t_mean) * (y(loss) - y_mean);
  }
  RUBATO_CHECK(tt > 0, "a slope needs different instants");
  const double slope = ty / tt;
  double misses = 0;
  for (const auto& [t, loss] : samples) {
    const double miss = y(loss) - y_mean - slope * (t - t_mean);
    misses += miss * miss;
  }
  return {.slope = slope, .error = std::sqrt(misses / (n - 2) / tt)};
}

}  // namespace

LossCurve fit_three(const std::array<LossSample, 3>& samples) {
  const auto& [t1, l1] = samples[0];
  const auto& [t2, l2] = samples[1];
  const auto& [t3, l3] = samples[2];
  const double c = ((l1 - l3) * l2 * (t2 - t1) - (l1 - l2) * l3 * (t3 - t1)) /
                   ((l1 - l3) * (t2 - t1) - (l1 - l2) * (t3 - t1));
  const double a = (1 / (l3 - c) - 1 / (l1 - c)) / (t3 - t1);
  return {.a = a, .b = 1 / (l1 - c) - a * t1, .c = c};
}

double paper_reward(const std::array<LossSample, 3>& samples, double target) {
  return fit_three(samples).reward(target);
}

std::optional<BoundedFit> fit_bounded(std::span<const LossSample> samples, double c_max) {
  if (samples.size() < 4) return std::nullopt;
  constexpr int kGrid = 64;    // c at k/64 of c_max, then finer around the best
  constexpr int kRefine = 40;  // golden-section steps: 2/64 shrinks by 0.618^40
  std::array<Candidate, kGrid + 1> grid;
  for (int k = 0; k <= kGrid; ++k) grid[k] = fit_given_c(samples, c_max * k / kGrid);
  const auto less = [](const Candidate& a, const Candidate& b) { return a.error < b.error; };
  const auto nearest = std::min_element(grid.begin(), grid.end(), less);
  Candidate best = *nearest;
  const auto index = static_cast<int>(nearest - grid.begin());
  constexpr double kGolden = 0.6180339887498949;
  double low = c_max * std::max(0, index - 1) / kGrid;
  double high = c_max * std::min(kGrid, index + 1) / kGrid;
  for (int k = 0; k < kRefine; ++k) {
    const Candidate left = fit_given_c(samples, high - kGolden * (high - low));
    const Candidate right = fit_given_c(samples, low + kGolden * (high - low));
    best = std::min({best, left, right}, less);
    if (left.error <= right.error) {
      high = right.curve.c;
    } else {
      low = left.curve.c;
    }
  }
  if (!(best.curve.a > 0)) return std::nullopt;
  // One standard error of c: where the sum of squares exceeds its minimum by the variance.
  const double limit = best.error * (1 + 1 / (static_cast<double>(samples.size()) - 3));
  LossCurve gentlest = best.curve;
  for (const Candidate& candidate : grid) {
    if (candidate.curve.c >= gentlest.c) break;
    if (candidate.error <= limit && candidate.curve.a > 0) gentlest = candidate.curve;
  }
  return BoundedFit{.curve = best.curve, .gentlest = gentlest};
}

std::optional<Speed> compare_speed(std::span<const LossSample> before,
                                   std::span<const LossSample> after) {
  constexpr double kAsymptoteMax = 0.75;  // of the lowest loss
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto samples : {before, after}) {
    for (const LossSample& sample : samples) {
      RUBATO_CHECK(std::isfinite(sample.loss) && sample.loss > 0, "losses are positive");
      lowest = std::min(lowest, sample.loss);
    }
  }
  const auto fit = fit_bounded(before, kAsymptoteMax * lowest);
  if (!fit) return std::nullopt;
  const auto clock = [&](double loss) { return fit->curve.seconds_to(loss); };
  const auto gentle_clock = [&](double loss) { return fit->gentlest.seconds_to(loss); };
  const Line own = fit_line(before, clock);  // its slope is 1, but for noise
  const Line other = fit_line(after, clock);
  const double doubt = other.slope - fit_line(after, gentle_clock).slope;  // about c
  return Speed{.ratio = other.slope,
               .error = std::hypot(other.error, other.slope * own.error, doubt)};
}

Speed round_trip(const Speed& there, const Speed& back) {
  RUBATO_CHECK(there.ratio > 0, "a trial that does not fall is not better");
  // A return that falls no faster than its error is only known to be slow.
  constexpr double kSlowest = 0.05;
  const double back_ratio = std::max({back.ratio, back.error, kSlowest});
  const double ratio = std::sqrt(there.ratio / back_ratio);
  const double relative = std::hypot(there.error / there.ratio, back.error / back_ratio);
  return {.ratio = ratio, .error = 0.5 * ratio * relative};
}

bool falls_faster(std::span<const LossSample> before, std::span<const LossSample> after) {
  const auto log_loss = [](double loss) { return std::log(loss); };
  const Line first = fit_line(before, log_loss);
  const Line second = fit_line(after, log_loss);
  return second.slope < 0 && second.slope + 2 * std::hypot(first.error, second.error) < first.slope;
}

}  // namespace rubato::sync
