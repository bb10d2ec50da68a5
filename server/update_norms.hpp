// server/update_norms.hpp - how large the updates are that a shard applies, and from where on one
// is refused: many times their running median. The norm of an update is its largest element, times
// its weight; of an elastic commit, whose payload is parameters, the largest of these.
// It finds updates that would destroy the parameters at once. It does not find those that are
// wrong and of the usual size.
// - The median is over the last kNormsKept applied commits, of which one worker has half at most:
//   a fast worker alone does not move it.
// - No update is refused that is no larger than the largest initial parameter, or 1. So small
//   updates, such as those of the end of a learning rate's schedule, may grow again.
// - Before kNormsFirst commits the limit is `factor` times that size.
// - kNormMax bounds all, also where the limit is switched off: with it no optimizer and no sum of
//   updates overflows in one commit.
// Pure. Memory: kNormsKept norms. Cost: a median a few commits. Threads: one owner. Errors: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"

namespace rubato::server {

inline constexpr std::size_t kNormsKept = 64;
inline constexpr std::size_t kNormsFirst = 16;
// Adam squares it, and 3.4e38 is the largest float.
inline constexpr double kNormMax = 1e15;
inline constexpr double kUpdateLimitDefault = 1000;

class UpdateNorms {
 public:
  UpdateNorms() = default;
  // `factor`: of the median; 0: only kNormMax holds. `parameter`: the largest initial one.
  UpdateNorms(double factor, double parameter) : factor_(factor), least_(std::max(1.0, parameter)) {
    set_limit();
  }

  // The largest norm that is applied.
  double limit() const { return limit_; }

  // A commit was applied.
  void note(WorkerId worker, double norm) {
    largest_ratio_ = std::max(largest_ratio_, factor_ * norm / limit_);
    entries_[place_of(worker)] = {worker, norm, ++noted_};
    // Each of the first ones; later a few hardly move it.
    if (noted_ <= kNormsFirst || noted_ % kMedianEvery == 0) set_limit();
  }
  // How near an applied commit came to being refused: at `factor` it would have been.
  double largest_ratio() const { return largest_ratio_; }

 private:
  static constexpr std::uint64_t kMedianEvery = 8;
  struct Entry {
    WorkerId worker;
    double norm = 0;
    std::uint64_t number = 0;
  };

  // A free place; else that of the oldest entry, or of the worker's own oldest where it has half.
  std::size_t place_of(WorkerId worker) {
    if (size_ < kNormsKept) return size_++;
    const auto own = std::ranges::count(entries_, worker, &Entry::worker);
    const bool many = 2 * static_cast<std::size_t>(own) >= kNormsKept;
    std::size_t oldest = kNormsKept;
    for (std::size_t i = 0; i < kNormsKept; ++i) {
      if (many && entries_[i].worker != worker) continue;
      if (oldest == kNormsKept || entries_[i].number < entries_[oldest].number) oldest = i;
    }
    return oldest;
  }

  void set_limit() {
    limit_ = kNormMax;
    std::array<double, kNormsKept> norms{};
    for (std::size_t i = 0; i < size_; ++i) norms[i] = entries_[i].norm;
    if (size_ > 0) {  // the lower one of two: half of the entries may be one worker's
      const auto middle = norms.begin() + static_cast<std::ptrdiff_t>((size_ - 1) / 2);
      std::nth_element(norms.begin(), middle, norms.begin() + static_cast<std::ptrdiff_t>(size_));
      median_ = *middle;
    }
    if (factor_ == 0) return;
    const double usual = size_ < kNormsFirst ? least_ : median_;
    limit_ = std::min(limit_, std::max(least_, factor_ * usual));
  }

  double factor_ = kUpdateLimitDefault;
  double least_ = 1;
  double limit_ = kNormMax;
  double median_ = 0;
  double largest_ratio_ = 0;
  std::size_t size_ = 0;
  std::uint64_t noted_ = 0;
  std::array<Entry, kNormsKept> entries_{};
};

}  // namespace rubato::server
