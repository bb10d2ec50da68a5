// sync/loss_curve.hpp - how fast the loss falls: the curve l(t) = 1/(A t + b) + c and the reward r,
// the inverse of the time in which it reaches a target.
// Source: Hu, Wang, Wu, AAAI 2020, Sec. 4.2 (A, b, c named a1, a2, a3 there); the curve is that of
// Peng et al., "Optimus", EuroSys 2018. Letters: l loss, l* target, A, b, c as above.
// Pure. Units: seconds from an origin the caller chooses. Threads: any. Errors: none; a curve that
// does not exist is an empty optional.
#pragma once

#include <array>
#include <optional>
#include <span>

namespace rubato::sync {

struct LossSample {
  double seconds = 0;
  double loss = 0;
};

struct LossCurve {
  double a = 0;  // A, per second and unit of loss
  double b = 0;
  double c = 0;  // asymptote

  double at(double seconds) const { return 1.0 / (a * seconds + b) + c; }
  double seconds_to(double loss) const { return (1.0 / (loss - c) - b) / a; }
  // r: the inverse of the instant at which the curve reaches `target`.
  double reward(double target) const { return 1.0 / seconds_to(target); }
};

// The published closed form through three samples. Values may be infinite or NaN, A negative and c
// above the losses: what is not a falling curve has no such fit.
LossCurve fit_three(const std::array<LossSample, 3>& samples);

// The published reward. It may be positive, and large, although the loss RISES.
double paper_reward(const std::array<LossSample, 3>& samples, double target);

struct BoundedFit {
  LossCurve curve;     // the best
  LossCurve gentlest;  // with the lowest c within one standard error: the slowest decay ahead
};

// Least squares under A > 0, b > 0 and 0 <= c <= `c_max`, by a search over c alone: for a fixed c
// the rest is linear in 1/(l - c). Requires: c_max below every loss.
// Returns: empty for fewer than 4 samples or where no falling curve fits.
std::optional<BoundedFit> fit_bounded(std::span<const LossSample> samples, double c_max);

// How many times as fast the loss falls in one window as in another, AT EQUAL LOSS.
struct Speed {
  double ratio = 1;
  double error = 0;  // standard error of ratio
  // Beyond doubt better: a tenth faster at least, and more than one standard error.
  bool faster() const { return ratio - error > 1.1; }
};

// Loss falls ever more slowly whatever the rate, so a later window scores worse than an earlier one
// of equal quality. The curve fitted to `before` serves as a clock instead: it turns each later
// loss into the time at which training as before would have come to it, and the slope of that time
// against the real one is the ratio. c is kept below 3/4 of the lowest loss: nearer, the noise of a
// short window makes the predicted decay too steep and what follows look fast.
// Returns: empty where `before` does not fall or has fewer than 4 samples: there is no clock.
// Requires: at least 3 samples each, at different instants; losses are finite and above 0.
std::optional<Speed> compare_speed(std::span<const LossSample> before,
                                   std::span<const LossSample> after);

// There and back: a trial window, given how it compares with the window before it, and how the
// return to the old rate compares with the trial. What the clock mispredicts enters both alike and
// cancels: ratio = sqrt(there / back).
// Requires: there.ratio > 0.
Speed round_trip(const Speed& there, const Speed& back);

// For a window whose predecessor did not fall: its log loss falls, and faster by two standard
// errors.
bool falls_faster(std::span<const LossSample> before, std::span<const LossSample> after);

}  // namespace rubato::sync
