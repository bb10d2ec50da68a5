#include "sync/rate_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace rubato::sync {
namespace {

std::string describe(const Window& window) {
  return fmt::format("window {:.0f} s, {} samples", window.back().seconds - window.front().seconds,
                     window.size());
}

double lowest(const Window& window) {
  double loss = window.front().loss;
  for (const LossSample& sample : window) loss = std::min(loss, sample.loss);
  return loss;
}

double published_reward(const Window& window, double target) {
  const double reward =
      paper_reward({window.front(), window[window.size() / 2], window.back()}, target);
  return std::isfinite(reward) ? reward : 0;
}

}  // namespace

PaperSearch::PaperSearch(int first) : rate_(first), best_rate_(first) {
  RUBATO_CHECK(first >= 1, "rates start at 1");
}

std::string PaperSearch::on_window(const Window& window, int rate_max) {
  RUBATO_CHECK(!done_ && window.size() >= 3, "a running search, start, middle and end");
  std::string line;
  bool better = true;
  if (best_window_.empty()) {
    line = fmt::format("R={}", rate_);
  } else {
    const double target = 0.9 * std::min(lowest(window), lowest(best_window_));
    const double reward = published_reward(window, target);
    const double best_reward = published_reward(best_window_, target);
    better = reward > best_reward;
    line = fmt::format("R={}: reward {:.2e} {} R={}: {:.2e}", rate_, reward,
                       better ? ">" : "<=", best_rate_, best_reward);
  }
  line += fmt::format(" ({}); ", describe(window));
  if (better) {
    best_rate_ = rate_;
    best_window_ = window;
  }
  done_ = !better || rate_ >= rate_max;
  rate_ = done_ ? best_rate_ : rate_ + 1;
  return line + fmt::format("{} {}", done_ ? "keep" : "try", rate_);
}

RobustSearch::RobustSearch(int first) : rate_(first), best_rate_(first) {
  RUBATO_CHECK(first >= 1, "rates start at 1");
}

std::string RobustSearch::on_window(const Window& window, int rate_max) {
  RUBATO_CHECK(!done() && window.size() >= 3, "a running search and enough samples");
  std::string line = fmt::format("R={} ", rate_);
  if (stage_ == Stage::Base) {
    line +=
        fmt::format("took the loss from {:.4f} to {:.4f}", window.front().loss, window.back().loss);
    base_ = window;
    stage_ = Stage::Trial;
  } else {
    line += stage_ == Stage::Trial ? on_trial(window) : on_return(window);
  }
  line += fmt::format(" ({}); ", describe(window));
  if (stage_ == Stage::Trial && !next_trial(rate_max)) stage_ = Stage::Done;
  if (stage_ == Stage::Trial) return line + fmt::format("try {}", rate_);
  rate_ = best_rate_;
  return line + fmt::format("{} {}", done() ? "keep" : "back to", rate_);
}

// The next stage is Trial or Return.
std::string RobustSearch::on_trial(const Window& window) {
  there_ = compare_speed(base_, window);
  std::string line = there_ ? fmt::format("is {:.2f} +- {:.2f} times as fast as R={} at equal loss",
                                          there_->ratio, there_->error, best_rate_)
                            : fmt::format("follows R={}, which did not lower the loss", best_rate_);
  if (there_ ? there_->faster() : falls_faster(base_, window)) {
    adopt(rate_);
    base_ = window;
  } else {
    trial_rate_ = rate_;
    trial_ = window;
    stage_ = Stage::Return;
  }
  return line;
}

// The next stage is Base, Trial or Done.
std::string RobustSearch::on_return(const Window& window) {
  base_ = window;
  const auto back = compare_speed(trial_, window);
  std::string line = fmt::format("again: R={} was not seen to be better", trial_rate_);
  if (there_ && there_->ratio > 0 && back) {
    const Speed speed = round_trip(*there_, *back);
    line = fmt::format("again: there and back, R={} is {:.2f} +- {:.2f} times as fast", trial_rate_,
                       speed.ratio, speed.error);
    if (speed.faster()) {
      adopt(trial_rate_);
      stage_ = Stage::Base;
      return line;
    }
  }
  const bool other_side = direction_ == Direction::Up && !improved_;
  direction_ = Direction::Down;
  stage_ = other_side ? Stage::Trial : Stage::Done;
  return line;
}

void RobustSearch::adopt(int rate) {
  best_rate_ = rate;
  improved_ = true;
}

bool RobustSearch::next_trial(int rate_max) {
  if (direction_ == Direction::Up) {
    rate_ = std::min(2 * best_rate_, rate_max);
    if (rate_ > best_rate_) return true;
    if (improved_) return false;
    direction_ = Direction::Down;
  }
  rate_ = std::max(1, best_rate_ / 2);
  return rate_ < best_rate_;
}

}  // namespace rubato::sync
