// scheduler/setbacks.hpp - how often all shards went back to a snapshot, since the parameters
// broke, and whether they may once more. The third time within the window ends the run. Pure.
// Threads: one owner. Errors: none; misuse is a bug.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/check.hpp"
#include "base/time.hpp"

namespace rubato::scheduler {

inline constexpr std::size_t kSetbacksMax = 2;
inline constexpr Duration kSetbackWindow = Duration::from_seconds(600);
inline constexpr int kBadLossesMax = 2;  // in a row

class Setbacks {
 public:
  // How many there were, and the snapshot of the last one, as each member list says it.
  std::uint32_t count() const { return count_; }
  std::uint64_t back_to() const { return back_to_; }
  // The last evaluations were not finite: the parameters may be broken.
  bool doubtful() const { return bad_losses_ > 0; }

  // The loss as it was measured at `at`. Returns: whether it was not finite for the
  // kBadLossesMax-th time in a row. What was measured before the last setback does not count.
  bool on_loss(Instant at, double loss) {
    if (!times_.empty() && at <= times_.back()) return false;
    bad_losses_ = std::isfinite(loss) ? 0 : bad_losses_ + 1;
    return bad_losses_ >= kBadLossesMax;
  }
  // `acked`: the newest list that all shards have. Until they have gone back, what they say is of
  // before.
  bool under_way(std::uint64_t acked) const { return acked < epoch_; }
  // Another one would be the third within the window.
  bool exhausted(Instant now) {
    while (!times_.empty() && now - times_.front() > kSetbackWindow) times_.pop_front();
    return times_.size() >= kSetbacksMax;
  }
  // All shards go back to snapshot `back_to`. Requires: !exhausted(now).
  void begin(Instant now, std::uint64_t back_to) {
    RUBATO_CHECK(times_.size() < kSetbacksMax, "the run ends instead");
    times_.push_back(now);
    bad_losses_ = 0;
    ++count_;
    back_to_ = back_to;
  }
  // List `epoch` is the first that tells the last one.
  void on_listed(std::uint64_t epoch) { epoch_ = epoch; }

 private:
  std::uint32_t count_ = 0;
  std::uint64_t back_to_ = 0;
  std::uint64_t epoch_ = 0;    // the first list that tells it
  std::deque<Instant> times_;  // ascending; some may be out of the window
  int bad_losses_ = 0;         // in a row, of those after the last setback
};

}  // namespace rubato::scheduler
