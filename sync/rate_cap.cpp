#include "sync/rate_cap.hpp"

#include <algorithm>
#include <cmath>

namespace rubato::sync {
namespace {

constexpr double kRise = 1.4;      // of the loss over the lowest
constexpr double kRecovery = 1.1;  // of the bound, with each new low
constexpr double kNewLow = 0.97;   // of the last one: noise alone makes lows that are less
constexpr double kStalled = 0.99;  // of the mean loss of the window before
constexpr double kCut = 0.7;       // of the mean rate under which it stalled
constexpr double kForget = 0.15;   // of the highest rate, an evaluation
constexpr int kSettling = 5;       // evaluations until a lower rate shows
constexpr int kWindow = 3;         // evaluations at least

}  // namespace

RateCap::Verdict RateCap::on_evaluation(double loss, double rate) {
  if (lowest_ == 0 && !(loss > 0)) return Verdict::Fine;
  if (evaluations_ == 0) begin_window(kSettling);
  ++evaluations_;
  highest_ = std::max(rate, highest_ + kForget * (rate - highest_));
  if (lowest_ == 0 || loss < lowest_) lowest_ = loss;
  const bool new_low = last_low_ == 0 || loss < kNewLow * last_low_;
  if (new_low) {
    last_low_ = loss;
    max_ = std::min(most_, max_ * kRecovery);
  }
  if (settling_ > 0) --settling_;
  if (settling_ == 0 && !(loss <= kRise * lowest_)) {
    settling_ = kSettling;
    max_ = std::max(min_, highest_ / 2);
    last_mean_ = -1;
    begin_window(kSettling);
    return Verdict::Rose;
  }
  if (!std::isfinite(loss)) return Verdict::Fine;
  window_.losses += loss;
  window_.rates += rate;
  ++window_.count;
  if (evaluations_ >= window_end_ && close_window(new_low)) return Verdict::Stalled;
  return new_low ? Verdict::NewLow : Verdict::Fine;
}

// Returns: whether the loss stalled; at a new low it does not.
bool RateCap::close_window(bool new_low) {
  const double mean = window_.losses / window_.count;
  const bool stalled = !new_low && last_mean_ >= 0 && mean > kStalled * last_mean_;
  if (stalled) max_ = std::clamp(kCut * window_.rates / window_.count, min_, most_);
  last_mean_ = mean;
  begin_window(kWindow);
  return stalled;
}

void RateCap::begin_window(int least) {
  window_ = {};
  window_end_ = evaluations_ + std::max(least, evaluations_ / 4);
}

}  // namespace rubato::sync
