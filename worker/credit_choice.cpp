#include "worker/credit_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/words.hpp"

namespace rubato::worker {
namespace {

constexpr std::size_t kRestCommits = 16;  // commits between two trials, doubled
constexpr double kBetter = 0.98;          // part of the time that a winner takes at most
constexpr double kHopeless = 1.25;        // times as long: one commit is enough to give up a trial
constexpr std::uint64_t kDoublings = 4;   // with each trial that lost, up to these

template <class T>
Duration median_time(T samples) {
  std::ranges::sort(samples);
  return samples[samples.size() / 2];
}

}  // namespace

// What to try: on in the direction that won last, the other way where that ends or lost.
std::uint32_t CreditChoice::neighbour() const {
  const bool up = best_ == least_ || (up_ && best_ < most_);
  return up ? std::min(best_ * 2, most_) : std::max(best_ / 2, least_);
}

std::optional<std::string> CreditChoice::on_commit(Duration blocked) {
  if (least_ == most_) return std::nullopt;
  samples_[count_++ % kSamples] = blocked;
  if (now_ == best_) {
    if (count_ < rest_) return std::nullopt;
    best_blocked_ = median_time(samples_);
    now_ = neighbour();
    count_ = 0;
    return std::nullopt;
  }
  const bool hopeless = blocked > best_blocked_ * kHopeless;
  if (count_ < kSamples && !hopeless) return std::nullopt;
  const Duration tried = median_time(samples_);
  count_ = 0;
  if (!hopeless && tried < best_blocked_ * kBetter) {
    auto line = fmt::format("credit {}: a commit blocks for {:.4g} s, with {} for {:.4g} s",
                            counted(static_cast<std::uint64_t>(now_), "chunk"), tried.seconds(),
                            best_, best_blocked_.seconds());
    up_ = now_ > best_;
    best_ = now_;
    lost_ = 0;
    rest_ = at_an_end() ? kRestCommits : kSamples;
    return line;
  }
  up_ = now_ < best_;
  now_ = best_;
  ++lost_;
  // The other direction has its turn at once, if there is one.
  rest_ = lost_ == 1 && !at_an_end() ? kSamples : kRestCommits << std::min(lost_ - 1, kDoublings);
  return std::nullopt;
}

}  // namespace rubato::worker
