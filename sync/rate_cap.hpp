// sync/rate_cap.hpp - a bound on a rate, learned from the losses that were measured under it: it
// falls when a loss rises or stalls, and grows again while the loss reaches new lows, each a few
// per cent below the last.
// A loss stalls when the mean of a window of evaluations is not lower than that of the window
// before, nor its last a new low; a window is a quarter as long as all that went before it, so that
// neither the pace of evaluations nor that of training has to be known. Pure. Rates in any one
// unit. Threads: one owner. Errors: none.
#pragma once

namespace rubato::sync {

class RateCap {
 public:
  // `max`: the bound at the start, never exceeded; `min`: it never falls below.
  RateCap(double min, double max) : min_(min), most_(max), max_(max) {}

  enum class Verdict {
    Fine,
    NewLow,   // a few per cent below the last: the bound may have grown
    Stalled,  // the bound is now below the mean rate of the last window
    Rose,  // more than 1.4 times the lowest loss, or no number: the bound is now half the highest
           // rate of late. Not judged again for the next few evaluations
  };
  // `rate`: the one in use. A first loss that is not positive is passed over.
  Verdict on_evaluation(double loss, double rate);

  double max() const { return max_; }
  double lowest_loss() const { return lowest_; }

 private:
  struct Window {
    double losses = 0;  // sum over its evaluations
    double rates = 0;
    int count = 0;
  };
  bool close_window(bool new_low);
  void begin_window(int least);

  const double min_, most_;
  double max_;
  double lowest_ = 0;    // 0: none yet
  double last_low_ = 0;  // the one that last gave something back
  double highest_ = 0;   // rate of late
  int evaluations_ = 0;
  int settling_ = 0;
  Window window_;
  int window_end_ = 0;     // evaluations_ when it ends
  double last_mean_ = -1;  // of the losses of the window before; below 0: not to be compared with
};

}  // namespace rubato::sync
