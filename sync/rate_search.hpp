// sync/rate_search.hpp - one search for ADSP's commit rate R: which rate to try in the next window,
// and when to stop. `PaperSearch` is the published hill climbing, `RobustSearch` ours.
// Source: Hu, Wang, Wu, AAAI 2020, Alg. 1 (DecideCommitRate, OnlineSearch); docs/sync.md explains
// what RobustSearch does otherwise, and why.
// Pure. Units: R in commits per check period; seconds. Threads: one owner. Errors: none; misuse is
// a bug.
//
// Use: train a window at rate(), call on_window with what it saw, until done(); then rate() is the
// choice.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sync/loss_curve.hpp"

namespace rubato::sync {

// The losses seen while training at one rate. At least 3, in order of time.
using Window = std::vector<LossSample>;

// R, R+1, R+2... until the reward of a window is no better than that of the one before. Both are
// measured to one l*, which the paper leaves open: 0.9 of the lowest loss of the two. A reward that
// is not a number (a flat window) counts as 0.
class PaperSearch {
 public:
  // Requires: 1 <= first.
  explicit PaperSearch(int first);

  int rate() const { return rate_; }
  bool done() const { return done_; }
  // Rates above `rate_max` are not tried. Returns: what was compared and chosen, in one line.
  std::string on_window(const Window& window, int rate_max);

 private:
  int rate_;
  int best_rate_;
  Window best_window_;  // of best_rate_; empty before the first
  bool done_ = false;
};

// Doubles R while that makes the loss fall faster beyond doubt (Speed::faster), compared at equal
// loss; where the first doubling does not, halves it while that does. A trial that does not win at
// once is judged after a window back at the old rate, by both changes. Steps are geometric because
// the noise of a window hides anything smaller.
class RobustSearch {
 public:
  // Requires: 1 <= first.
  explicit RobustSearch(int first);

  int rate() const { return rate_; }
  bool done() const { return stage_ == Stage::Done; }
  // As PaperSearch::on_window.
  std::string on_window(const Window& window, int rate_max);

 private:
  enum class Stage { Base, Trial, Return, Done };  // what the next window is
  enum class Direction { Up, Down };

  std::string on_trial(const Window& window);
  std::string on_return(const Window& window);
  void adopt(int rate);
  bool next_trial(int rate_max);  // sets rate_; false: none is left

  Stage stage_ = Stage::Base;
  Direction direction_ = Direction::Up;
  int rate_;
  int best_rate_;
  Window base_;  // at best_rate_
  int trial_rate_ = 0;
  Window trial_;
  std::optional<Speed> there_;  // trial_ against base_
  bool improved_ = false;       // a trial has won
};

using RateSearch = std::variant<PaperSearch, RobustSearch>;

}  // namespace rubato::sync
